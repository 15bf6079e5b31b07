"""The store: a directory that keeps every epoch of a database. Its format is `docs/format.md`.

disk.py            everything that a store reads and writes, one method each: the file system of this machine
object_disk.py     the same where places are URLs: S3 and what is like it
writer_lock.py     what makes a process the writer
epoch_files.py     the files of an epoch that is being committed
manifest.py        what an epoch consists of, as data and as text
parquet_blocks.py  rows and texts as Parquet
pieces.py          the net changes of stretches of epochs: reading sets from them, merging them
store.py           the place: epochs, who writes, commit, recovery
memories.py        what strategies remember, as sets
state.py           a snapshot as sets, and back, relation by relation
ondemand.py        a mapping whose values are made when they are asked for
digests.py         what a store and its memories were made by, in normal form
differences.py     how two programs differ, in words
keeper.py          ties an engine to a store
vacuum.py          drops old epochs, renumbers symbols and records
metrics.py         epochs as OpenMetrics text
"""
