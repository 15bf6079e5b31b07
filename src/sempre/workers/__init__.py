"""The workers backend: relations sharded over several processes, which run plans together.

    framing   a frame: a header, and columns of integers; nothing is ever unpickled
    codec     plans and programs as headers
    channel   frames over one authenticated socket, both ways at once
    mesh      all workers to all workers: rows go directly to whoever needs them
    placing   which worker has which row
    shards    the part of a version, a view, ... that one worker has
    flow      a plan as stages between which bindings travel
    stages    what a plan is cut into
    nested    negations and aggregates whose bodies are looked up at several places
    findings  what plans find, on its way home
    paths     modules on workers: each searches from its own values
    walks     long chains: one worker gets all it needs, and follows them alone
    together  several things at a time, whose rows go in one exchange
    set_commands, shard_commands, plan_commands   what one worker does for each command
    worker    how it hears commands and answers
    crew      the driver's end: commands to all workers, and what they answer
    handles           what the workers have, as the driver holds it
    workers_backend   the algebra, on handles
    shared_values     symbols and records as the driver numbers them
    start     workers as threads, as processes of this machine, or in the tasks of a Spark job

The strategies run in the driver, as always. Each operation of the algebra is one command that all workers carry out
together. Most need no answer, so that the driver is ahead of the workers until it has to know a size. What a command
makes stays with the workers, and the driver holds handles to it. See docs/design/0008-workers.md.
"""
