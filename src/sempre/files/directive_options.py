"""What the options of `.input` and `.output` mean: Soufflé's, plus `IO=parquet|csv|json|jdbc|spark`.

`columns=2:0:1` takes columns by their places, from 0, and `extra=ignore` leaves out those that the relation lacks; else
columns that have names are found by these, see `sempre.files.matching`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from sempre.analysis.model import CheckedProgram, Relation
from sempre.data import dataclass
from sempre.diagnostics import Diagnostic, ProgramError
from sempre.files.matching import BY_NAME, IN_DIRECTIVE, ColumnChoice
from sempre.files.value_choice import AS_THEY_ARE, BadChoice, ValueChoice, value_choice
from sempre.lang.syntax import Directive

TEXT = ("file", "csv", "stdin", "stdout")
_FORMATS = ("parquet", "json", "jsonfile", "sqlite", "delta", "iceberg", "jdbc", "spark")
KNOWN_IO = {
    "input": ("file", "csv", "stdin", *_FORMATS),
    "output": ("file", "csv", "stdout", "stdoutprintsize", *_FORMATS),
}
SPARK_ONLY = ("jdbc", "spark")
KNOWN_OPTIONS = (
    "IO", "filename", "delimiter", "rfc4180", "headers", "columns", "extra", "compress", "format", "table", "mode",
    "nulls", "decimals", "dbname",
)  # fmt: skip
# Passed on to Spark's JDBC source as they are; `url`, `user` and `password` may be `$NAME`, from the environment.
JDBC_OPTIONS = (
    "url", "user", "password", "driver", "query", "fetchsize", "batchsize",
    "partitionColumn", "lowerBound", "upperBound", "numPartitions",
)  # fmt: skip
# Tables that keep versions; a path is relative to the folder of the facts, an Iceberg table may be in a catalog.
LAKE = ("delta", "iceberg")
CATALOG_OPTIONS = ("catalog", "uri", "warehouse")
# Databases, whose tables change in transactions.
SQL = ("sqlite", "jdbc")
# Tables that have no versions: a column may tell which rows are new, and others which row they replace.
FOLLOWED_BY_COLUMN = ("sqlite", "jdbc", "spark")
FOLLOWING = ("follow", "key")
# Written by Soufflé's own tools into directives; they change nothing here.
IGNORED_OPTIONS = ("attributeNames", "name", "operation", "fact-dir", "output-dir")


@dataclass(frozen=True, slots=True)
class TextFormat:
    """Delimited text. `columns[i]` is the place in the file of the relation's column i; None: as declared.

    With `headers` and without `columns` the first line says where they are; it may have others where `extra` is set.
    `width` is how many cells every line has; None: as many as it takes.
    """

    delimiter: str = "\t"
    rfc4180: bool = False
    headers: bool = False
    columns: tuple[int, ...] | None = None
    extra: bool = False
    width: int | None = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the facts of one directive are.

    `io` is one of file, stdin, stdout, stdoutjson, stdoutprintsize, parquet, json, sqlite, delta, iceberg, jdbc, spark.
    `layout` is that of JSON: list, object or lines. `changes`: each epoch's changes are appended instead of the state
    replaced; `merges`: the state is brought up to date instead of replaced. `table`, `jdbc` and `catalog` are where the
    facts are instead of a file. `taking` says how the columns of what has names are found.
    `follow` is a column that grows with every write, and `key` are those by which a row replaces another.
    """

    io: str
    filename: str
    text: TextFormat = TextFormat()
    compress: bool = False
    layout: str = "list"
    changes: bool = False
    values: ValueChoice = AS_THEY_ARE
    table: str = ""
    jdbc: tuple[tuple[str, str], ...] = ()
    taking: ColumnChoice = BY_NAME
    catalog: tuple[tuple[str, str], ...] = ()
    merges: bool = False
    follow: str = ""
    key: tuple[str, ...] = ()

    @property
    def needs_spark(self) -> bool:
        return self.io in SPARK_ONLY or (self.changes and self.io not in (*LAKE, "sqlite", "parquet"))

    @property
    def keeps_epoch(self) -> bool:
        """Whether this output is a table that says itself which epoch it shows."""
        return self.io in LAKE or (self.io in SQL and self.changes) or self.merges


class _BadOption(ValueError):
    pass


def input_endpoint(relation: Relation, directive: Directive) -> Endpoint:
    return _endpoint(relation, directive, "input")


def output_endpoint(relation: Relation, directive: Directive) -> Endpoint:
    return _endpoint(relation, directive, "output")


def changes_tables(checked: CheckedProgram, *, spark: bool) -> list[str]:
    """The outputs of changes that only a store can go on with: they say themselves which epoch they show."""
    alone = (*LAKE, "sqlite") if spark else (*LAKE, "sqlite", "parquet")
    outputs = [(each, output_endpoint(each, way)) for each in checked.relations.values() for way in each.outputs]
    return [relation.name for relation, endpoint in outputs if endpoint.changes and endpoint.io in alone]


def check_directives(checked: CheckedProgram, *, spark: bool = True) -> list[Diagnostic]:
    """Every directive option that cannot be honored; without `spark`, also those that need it."""
    found: list[Diagnostic] = []
    for relation in checked.relations.values():
        for directive in relation.inputs + relation.outputs:
            try:
                endpoint = _endpoint(relation, directive, "input" if directive in relation.inputs else "output")
            except ProgramError as error:
                found += error.diagnostics
                continue
            if endpoint.needs_spark and not spark:
                what = "mode=changes" if endpoint.changes else f"IO={endpoint.io}"
                message, hint = f"`{what}` needs Spark", "Run with --on spark, which is the default."
                found.append(Diagnostic("E515", message, directive.span, hint=hint))
    return list(dict.fromkeys(found))


def _endpoint(relation: Relation, directive: Directive, direction: str) -> Endpoint:
    options = dict(directive.options)
    try:
        return _build(relation, options, direction)
    except _BadOption as error:
        message, _, hint = str(error).partition("\n")
        raise ProgramError(Diagnostic("E511", message, directive.span, hint=hint)) from None


def _build(relation: Relation, options: Mapping[str, str], direction: str) -> Endpoint:
    io = options.get("IO", "file")
    _check_keys(options, io)
    if io not in KNOWN_IO[direction]:
        raise _BadOption(f"`IO={io}` is unknown for .{direction}\nUse one of: {', '.join(KNOWN_IO[direction])}.")
    compress = _flag(options, "compress")
    text = _text_format(relation, options, io) if io in TEXT else TextFormat()
    unknown = {"compress", "format", "mode"} if direction == "input" else {"compress", "format"}
    if io == "sqlite" and (unknown & options.keys() or not relation.arity):
        without = "`mode`, `compress` or `format`" if direction == "input" else "`compress` or `format`"
        raise _BadOption(f"`IO=sqlite` has tables with columns, and no {without}\nUse a file of text.")
    if "dbname" in options and (io != "sqlite" or "filename" in options):
        raise _BadOption("`dbname` names the file of `IO=sqlite`, as `filename` does\nKeep one of them.")
    filename = options.get("filename") or options.get("dbname") or _default_name(relation.name, io, direction, compress)
    return Endpoint(
        _carrier(options, direction, io),
        filename,
        text,
        compress or (direction == "output" and filename.endswith(".gz")),
        _choice(options, "format", ("list", "object", "lines")),
        direction == "output" and _mode(options, io) == "changes",
        _values(relation, options) if direction == "input" else AS_THEY_ARE,
        options.get("table", relation.name) if io in (*SPARK_ONLY, *LAKE, "sqlite") else "",
        _query_options(options, direction, io) if io in SPARK_ONLY else (),
        _taking(relation, options, io, direction),
        tuple((key, options[key]) for key in CATALOG_OPTIONS if key in options),
        direction == "output" and _mode(options, io) == "merge",
        *_following(relation, options, direction),
    )


def _carrier(options: Mapping[str, str], direction: str, io: str) -> str:
    """Where the facts are: in a file, in most cases. `IO=json` that names no file prints, as in Soufflé."""
    if direction == "output" and io == "json" and not {"filename", "mode"} & options.keys():
        return "json" if options.get("format") == "lines" else "stdoutjson"
    return {"csv": "file", "jsonfile": "json"}.get(io, io)


def _following(relation: Relation, options: Mapping[str, str], direction: str) -> tuple[str, tuple[str, ...]]:
    """The column that says which rows are new, and those that say which row they replace."""
    follow, key = options.get("follow", ""), tuple(filter(None, options.get("key", "").split(",")))
    if direction == "output" and (follow or key):
        raise _BadOption("`follow` and `key` say how an .input is read\nLeave them out.")
    if key and not follow:
        raise _BadOption("`key` says which row a later one replaces: it needs a column that tells which are later\n"
                         'Add one, as in follow="updated_at"; without both, all rows are compared.')  # fmt: skip
    unknown = [name for name in key if name not in relation.columns]
    if unknown:
        raise _BadOption(f"`key={','.join(key)}`: relation `{relation.name}` has no column `{unknown[0]}`\n"
                         f"It has {', '.join(relation.columns)}.")  # fmt: skip
    return follow, key


def _values(relation: Relation, options: Mapping[str, str]) -> ValueChoice:
    """What nulls and decimals become."""
    try:
        return value_choice(relation, options.get("nulls"), options.get("decimals"))
    except BadChoice as error:
        raise _BadOption(str(error)) from None


def _mode(options: Mapping[str, str], io: str) -> str:
    """How an output follows the state."""
    mode = _choice(options, "mode", ("overwrite", "changes", "merge"))
    if mode == "merge" and io not in (*LAKE, *SQL, "spark"):
        raise _BadOption(
            "`mode=merge` is for tables that can change in part\n"
            "Use IO=delta, IO=iceberg, IO=sqlite, IO=jdbc or IO=spark, or leave it out."
        )
    return mode


def _taking(relation: Relation, options: Mapping[str, str], io: str, direction: str) -> ColumnChoice:
    """How columns with names are found."""
    extra = _choice(options, "extra", ("error", "ignore")) == "ignore"
    if "extra" in options and direction == "output":
        raise _BadOption("`extra` is for .input: an output has the columns of its relation\nLeave it out.")
    if extra and io in TEXT and not _flag(options, "headers"):
        raise _BadOption("`extra=ignore` needs names to tell columns apart\nAdd headers=true, or use columns=0:1.")
    if "columns" in options and io in ("json", "jsonfile"):
        raise _BadOption("`columns` has no use with `IO=json`: objects go by name, lists as they are\nLeave it out.")
    if "columns" in options and direction == "output":
        raise _BadOption("`columns` is for .input: an output has the columns of its relation\nLeave it out.")
    if "columns" in options and extra:
        raise _BadOption("`columns` leaves all others out, with `extra=ignore` and without\nKeep one of them.")
    places = _columns(relation, options) if direction == "input" else None
    return ColumnChoice(places, extra=extra, requests=("", IN_DIRECTIVE[1]) if "json" in io else IN_DIRECTIVE)


def _check_keys(options: Mapping[str, str], io: str) -> None:
    own = {"jdbc": JDBC_OPTIONS, "iceberg": CATALOG_OPTIONS, "spark": ("query",)}.get(io, ())
    known = KNOWN_OPTIONS + own + (FOLLOWING if io in FOLLOWED_BY_COLUMN else ())
    for key in options:
        if key not in known + IGNORED_OPTIONS:
            raise _BadOption(f"unknown option `{key}`\nUse one of: {', '.join(known)}.")


def _query_options(options: Mapping[str, str], direction: str, io: str) -> tuple[tuple[str, str], ...]:
    """What is passed on to Spark's JDBC source; of tables of the session, a query in their place."""
    if io == "jdbc" and "url" not in options:
        raise _BadOption('`IO=jdbc` needs a url\nWrite url="jdbc:postgresql://HOST/DATABASE" or the like.')
    if direction == "output" and "query" in options:
        raise _BadOption("a query can be read, not written\nName a table.")
    if "query" in options and "table" in options:
        raise _BadOption("a table and a query exclude each other\nKeep one of them.")
    given = [(key, options[key]) for key in JDBC_OPTIONS if key in options]
    return tuple((key, _from_environment(key, value)) for key, value in given)


def _from_environment(key: str, value: str) -> str:
    """`$NAME` stands for a variable of the environment, so that a program need not hold secrets."""
    if key not in ("url", "user", "password") or not value.startswith("$"):
        return value
    found = os.environ.get(value[1:])
    if found is None:
        raise _BadOption(f"`{key}={value}`: there is no variable `{value[1:]}` in the environment")
    return found


def _default_name(name: str, io: str, direction: str, compress: bool) -> str:
    if io in ("parquet", "json", "jsonfile", "sqlite"):
        return f"{name}.{io.removesuffix('file')}"
    extension = "facts" if direction == "input" and io == "file" else "csv"
    return f"{name}.{extension}" + (".gz" if compress else "")


def _choice(options: Mapping[str, str], key: str, choices: tuple[str, ...]) -> str:
    """The value of an option with a few possible ones; the first is the default."""
    value = options.get(key, choices[0])
    if value not in choices:
        raise _BadOption(f"`{key}={value}` is unknown\nUse {', '.join(choices[:-1])} or {choices[-1]}.")
    return value


def _text_format(relation: Relation, options: Mapping[str, str], io: str) -> TextFormat:
    rfc4180 = _flag(options, "rfc4180", default=io == "csv")
    delimiter = options.get("delimiter", "," if rfc4180 else "\t").replace("\\t", "\t")
    if not delimiter or "\n" in delimiter or "\r" in delimiter:
        raise _BadOption('the delimiter is empty or a line break\nGive one character or more, such as delimiter=",".')
    if rfc4180 and (len(delimiter.encode()) != 1 or delimiter == '"'):
        raise _BadOption("with rfc4180=true the delimiter is one ASCII character other than a quote")
    extra = options.get("extra") == "ignore"
    return TextFormat(delimiter, rfc4180, _flag(options, "headers"), _columns(relation, options), extra)


def _flag(options: Mapping[str, str], key: str, default: bool = False) -> bool:
    value = options.get(key, str(default)).lower()
    if value not in ("true", "false"):
        raise _BadOption(f"option `{key}` is true or false, not `{options[key]}`")
    return value == "true"


def _columns(relation: Relation, options: Mapping[str, str]) -> tuple[int, ...] | None:
    text = options.get("columns")
    if text is None:
        return None
    parts = text.split(":")
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise _BadOption(f"`columns={text}` is not a list of places\nWrite the places in the file, from 0, as 2:0:1.")
    places = tuple(map(int, parts))
    if len(places) != relation.arity or len(set(places)) != len(places):
        raise _BadOption(f"`columns={text}` must name {relation.arity} different places, one per column")
    return places
