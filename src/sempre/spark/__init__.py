"""The border to Spark: sessions, sources, sinks, and values that cross as Arrow. Only this package imports pyspark.

java.py       finds a Java that Spark can run on
session.py    starts a session in the background, its log kept apart
frames.py     a DataFrame -> Arrow table of a relation, and back
lines.py      fact files with Soufflé's options, parsed by Spark
sources.py    `read_inputs`: every `.input` of a program through Spark's readers
residency.py  which rows stay on the cluster; odd_lines.py: lines of text that stays, and that take a closer look
jobs.py       where jobs are started, and ended by Ctrl-C
sinks.py      `write_outputs` and `write_changes`: outputs through Spark's writers
streams.py    a stream that keeps a database current: operations.py reads batches, inbox.py keeps them, feed.py tells
cluster/      strata evaluated by Spark; ship.py brings the package to its tasks, task_room.py knows their memory
failures.py   what Spark raises, as our errors

Nothing here changes or stops a session that it was given, caches a frame, or touches anything but DataFrames: all of
it works the same on classic sessions and on Spark Connect.
"""
