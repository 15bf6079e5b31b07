"""Facts in files: what `.input` and `.output` say, and change scripts.

directive_options.py  a directive's options -> where the facts are and how they are written
read.py               `read_inputs`: every `.input` of a program -> Arrow tables
text.py               delimited text -> table, by columns
numbered.py           texts that are numbered while files are read, in one dictionary
scan.py               the same row by row, for what text.py refuses, to name the bad lines
foreign.py            Parquet and JSON -> table
write.py              `write_outputs`: every `.output`, all of them or none
change_scripts.py     `read_changes`: scripts and folders -> epochs
matching.py           which column of a table is which of a relation: by name, or by position on request
instants.py           dates and times as numbers
locations.py          paths and URLs
root.py               `check_root`: which files a program may touch
records.py            records as text
columns.py            what a relation looks like in Arrow
"""

from sempre.files.change_scripts import Epoch, change_files, read_changes
from sempre.files.columns import schema_of, unit_table
from sempre.files.directive_options import check_directives, input_endpoint
from sempre.files.read import missing_file, read_inputs
from sempre.files.root import check_root
from sempre.files.write import WrittenFiles, write_changes, write_outputs

__all__ = [
    "Epoch",
    "WrittenFiles",
    "change_files",
    "check_directives",
    "check_root",
    "input_endpoint",
    "missing_file",
    "read_changes",
    "read_inputs",
    "schema_of",
    "unit_table",
    "write_changes",
    "write_outputs",
]
