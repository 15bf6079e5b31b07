"""The thresholds that decide how work is done, never what comes out of it.

One `Limits` belongs to a database. `Database` hands it to its backends and its store, and code that has one of these at
hand reads the limit there. Tests and measurements give a database others:

>>> from sempre.limits import Limits
>>> Limits(piece_rows=8).piece_rows
8

What is a fact and not a choice (the bits of a word, the number of a format, the size that a compiled loop is made for)
is a constant beside its use. So are the thresholds of the kernel and of file formats: their functions work on arrays
and texts, and no database is at hand.
"""

from __future__ import annotations

from sempre.data import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """All thresholds of one database. See the comment above each."""

    # ------------------------------------------------------------- auto: whether a change is worth following
    # A change of more than this share of what a stratum reads, and of more rows than these, is not worth maintaining.
    change_share: float = 0.1
    # Where rules recur, and changes of about that size are not known, it need not be so large: what follows is more.
    recursive_share: float = 0.05
    change_rows: int = 1_000
    # What only inserts finds every new instance once, as a run does: it may be a larger share.
    grown_rows_share: float = 0.3
    # Nor one that affects more than this many times the stratum's own facts, once it affects a good number.
    affected_share: float = 1.0
    affected_rows: int = 10_000
    # An update is given up when it has taken this share of the last run from scratch, and longer than a moment; one
    # that is expected to end before so large a share may take so many times as long, and one that is known to take
    # longer, as long as that and a little more.
    time_share: float = 0.2
    near_share: float = 1.1
    # So it may if what is still to come is less than this share of a run, however much is spent.
    rest_share: float = 0.6
    # What only inserts may take so many runs: it takes no longer than a run of the state that it leads to, which may
    # take several times as long as the last one did after a deletion in bulk.
    grown_share: float = 4.0
    time_moment: float = 0.05
    shrinking_share: float = 5.0
    expected_slack: float = 1.3
    # A deletion of more rows than these is not tried while the maps that it needs are missing, if making them takes it
    # beyond a run; and where it is not known what it takes, if they have taken more than this share of one.
    unprepared_rows: int = 100
    prepared_share: float = 0.4
    # It is also given up when what comes before its first round has taken this share of a run.
    prepare_share: float = 1.0
    # What is known of changes holds for those of less than so many times the rows.
    similar_share: float = 3.0
    # And may be a guess at those of up to so many times the rows, which can keep one from being tried.
    guessed_share: float = 16.0
    # An update is given up before, once it has taken this part of its time, if it seems to take longer than a run.
    early_share: float = 0.25
    # "Longer than a run" is so many times as long: what is foretold early has been two to four times too much. So no
    # more than this share of it is remembered.
    foretold_share: float = 3.0
    believed_share: float = 0.5
    # A front of no more than this share of all that went before is the last of a deletion.
    ended_share: float = 0.01
    # A change that is expected to take longer than this share of a run from scratch is not tried. From the lesser share
    # on it is tried like one of which nothing is known.
    avoided_share: float = 1.2
    expected_share: float = 0.8
    # Where that is a guess, since the last one like it was given up, it is not tried from this share on.
    doubted_share: float = 0.4
    # What was learned keeps this share each time it is followed untried.
    fading_share: float = 0.7
    # A stratum goes on by counters instead of ranks, or the other way round, if the last changes are expected to take
    # less than this share of what they take now; of a way that was never tried this share of a run is expected.
    changing_share: float = 0.7
    untried_share: float = 0.5
    # A run that counts all instances stops counting where there are more than so many for each fact.
    counted_share: float = 8.0
    # Where an insertion by counters was never tried, it is expected to take so many times as long as one by ranks.
    counting_share: float = 1.5
    # Changes of more than this share of what a stratum reads have no say in that: they are in bulk.
    bulk_share: float = 0.03
    # A stratum that took more rounds than this has long chains.
    many_rounds: int = 100
    # `elastic` gives an update up for a run from scratch when it takes longer than this share of the last such run.
    switch_share: float = 0.2

    # ------------------------------------------------------------- rounds, plans and walks
    # A plan is made again when some relation it reads grew or shrank by more than this many bits.
    replan_bits: int = 3
    # A relation with fewer rows than this is looked up without asking what another lookup would find.
    choice_rows: int = 64
    # Where a lookup may find so many rows and another atom has a say in what it binds, every row asks both.
    crowd_rows: int = 16
    # So it does where a lookup may find so many rows, and the other atom no more than so many times that on average:
    # relations grow while rules recur, and which of two lookups finds less may change.
    expanding_rows: int = 2
    uncertain_share: float = 4.0
    # An atom is narrowed to the rows that lower atoms let through if its relation has so many rows, no more than this
    # share of them is left, and the lower relations have at most so many times as many rows.
    narrowed_rows: int = 1 << 12
    narrowed_share: float = 0.5
    narrowing_size: int = 8
    # Rows that the number of distinct values of a column is estimated from.
    sample_rows: int = 4096
    # After this many rounds, deltas of at most this many rows are followed row by row where that is possible.
    walk_after: int = 3
    walk_front: int = 512
    # Where so many facts were found already, it takes so many small rounds in a row: most have a short end, and a walk
    # has no rounds to rank facts by.
    walk_facts: int = 1 << 16
    walk_tail: int = 32
    # After so many rounds of an update, a front of at most this many rows is followed fact by fact, with its rounds.
    grow_after: int = 1
    grow_front: int = 512
    # A deletion is settled fact by fact if no more facts than these lose an instance of a rule without recursion.
    settle_starts: int = 1 << 10
    # A stratum on the cluster that reads no more rows than this costs about as much as one job, whatever is done with
    # it.
    one_pass_rows: int = 1_000_000

    # ------------------------------------------------------------- places
    # The share of the machine's memory that strata may take in the driver unless `memory` says otherwise.
    memory_share: float = 0.5
    # After so many rounds of jobs on the cluster there is a warning.
    warned_rounds: int = 50
    # A stratum comes back from the cluster when it would take less than this share of the budget.
    return_share: float = 0.25

    # ------------------------------------------------------------- modules
    # A matrix has a bit for every pair of nodes: this many take 128 MiB.
    matrix_nodes: int = 1 << 15
    # A path module that closes more than it was asked for pays only if asked for at least one source in this many.
    few_sources: int = 64
    # Bits that a round may sweep over where a closure shares its stratum: a quarter of a gigabyte.
    swept_bits: int = 1 << 31

    # ------------------------------------------------------------- the local backend
    # Rows of the first step that one task takes; with fewer rows than `parallel_rows` a second thread costs more than
    # it saves.
    slice_rows: int = 1 << 15
    parallel_rows: int = 1 << 15
    # A join that would give more rows than these is cut into pieces.
    piece_rows: int = 1 << 17
    # After a first run with so many facts, memory that it does not need any more goes back to the system.
    give_back_rows: int = 1 << 20
    # So many rows that joins have found are merged before the next join, if most of them became alike.
    merging_rows: int = 1 << 13

    # ------------------------------------------------------------- the workers
    # About how many bindings a worker sends at once.
    round_rows: int = 1 << 17
    # A relation that is not recursive is copied to all workers if it has no more rows than this.
    everywhere_rows: int = 1 << 17
    # One worker walks alone where a walk reads no more rows than this, which it gets for it.
    gathered_rows: int = 1 << 20
    # The rows of a value are split over all workers if there are so many, and more than half of a worker's even share.
    split_rows: int = 1 << 16

    # ------------------------------------------------------------- the store
    # Sets of fewer rows share a file.
    shared_rows: int = 4096
    # Rows that are read at once: small enough to stay in the processor's cache while they are put together.
    group_rows: int = 1 << 18
    # Pieces of about the same size that become one, and how much "about" is, as a power of two.
    merged_pieces: int = 8
    level_bits: int = 3

    # ------------------------------------------------------------- the cluster: rows of DataFrames
    # Up to `driver_rows` are held in the driver; they are fetched if no more than `fetched_rows` are expected.
    driver_rows: int = 1 << 14
    fetched_rows: int = 1 << 14
    # A version or tally with more parts than this is merged.
    many_parts: int = 12
    # A plan is expected to find so many rows for each row of the smallest relation that it reads.
    fanout: int = 8

    # ------------------------------------------------------------- the cluster: joins
    # A side with at most this many values is sent to every task instead of being shuffled.
    broadcast_values: int = 1_000_000
    # One with at most this many is hashed where it was shuffled to, instead of both sides being sorted.
    hash_values: int = 8_000_000
    # A value is common in a column if at least this part of the rows has it, and so many rows of a sample do.
    common_share: float = 1 / 32
    common_rows: int = 2
    # Tasks that the rows of a common key are spread over.
    spread_tasks: int = 16

    # ------------------------------------------------------------- the cluster: strata inside of tasks
    # Rows that every task may be given a copy of, and rows that a single task may be given altogether.
    copied_rows: int = 4_000_000
    whole_rows: int = 2_000_000
    # They may be more where that takes no more than this share of the memory that the Python of a task has: what a task
    # derives takes the rest.
    task_share: float = 0.4
    # First facts per share; shares are small so that what they grow into fits beside its neighbors. There are at least
    # and at most so many shares, and up to `single_share_rows` there is one.
    share_rows: int = 25_000
    fewest_shares: int = 8
    most_shares: int = 256
    single_share_rows: int = 2_000

    # ------------------------------------------------------------- the cluster: small changes, followed in the driver
    # A change of more rows is not small, nor is one that affects more facts than this.
    followed_rows: int = 1 << 12
    followed_facts: int = 1 << 18
    # It is given up when it has taken this share of the last run from scratch, and longer than a few jobs do.
    followed_share: float = 0.3
    followed_moment: float = 3.0
    # What was given up is tried again with this many times fewer rows, or after it has been passed over so often.
    retried_share: int = 4
    retried_after: int = 8
    # A version of no more rows than this is fetched as a whole.
    fetched_whole: int = 1 << 12
    # Rows that all lookups in one relation may find, rows that all may read for that, and partial instances of a rule.
    found_rows: int = 1 << 20
    searched_rows: int = 1 << 28
    bound_rows: int = 1 << 20
    # To see which of a few rows are there, the driver reads no more than this; more are for a job.
    present_rows: int = 1 << 24
    # Files have groups of about so many rows or bytes: what is read to look up a few rows.
    page_rows: int = 1 << 16
    page_bytes: int = 1 << 20
    # The memory that sketches of what files have may take.
    sketch_bytes: int = 1 << 26

    # ------------------------------------------------------------- explanations
    # Facts that a proof is looked for backward from, and rule instances that may derive them; beyond these, the rounds
    # of the whole stratum say which instances make the least proof.
    traced_facts: int = 20_000
    traced_instances: int = 200_000
    # A relation of more rows is not searched for facts that are nearly the one that is missing.
    searched_near: int = 5_000_000


DEFAULTS = Limits()
