"""Fixpoints on Spark: the algebra of `sempre.plan.backend` on DataFrames, and whole strata inside of tasks.

column_types.py    what a column of a relation is in a DataFrame, and in Arrow
scratch.py         `Scratch`: what rounds found, as Parquet that goes when nobody holds it
shelves.py         where that is: a folder, or a URL that only Spark reaches
tables.py          `Table`, `Version`, `FrameTally`: rows that are a recipe until somebody settles them
compute.py         what expressions cannot say, by the kernel inside tasks
plans.py           a plan -> a DataFrame of its bindings
nested_bodies.py   negations and aggregates in bodies
aggregates.py      aggregates in heads
arrow_output.py    rows as Arrow of the relation, batch by batch; those that are asked for
spark_backend.py   `SparkBackend`: all of it together
task_fixpoints.py  a stratum closed inside of tasks, who write what they find: shares.py decides how
task_closing.py    `TaskClosing`: when that is done instead of rounds
neighbors.py       neighbors in a sorted column, range by range

Everything is DataFrames: it works the same on classic sessions and on Spark Connect, and sets nothing.
"""
