"""The arguments of each command. argparse, because it costs 10 ms to load where richer libraries cost 100."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path

from sempre.cli.souffle_options import UsageError, add_reading, add_refused, jobs
from sempre.diagnostics import StateError
from sempre.maintain.strategy_names import STRATEGY_NAMES
from sempre.sizes import parse_size

NETWORK_ALGORITHMS = ("auto", "proofs", "sets", "psn", "sn")
NETWORK_PLACEMENTS = ("auto", "hash", "links")
PLACES = ("auto", "driver", "workers", "cluster")
WORKERS_HELP = "how many processes hold strata with --place workers, or strata that are too large for this process"
MODULES_HELP = "which rules may have an algorithm of their own: a list of tc, stc, linear, rch, seq"
SWITCH_HELP = "elastic: give an update up after this share of the last run from scratch (default: 0.2)"
# The commands on stores that evaluate something, or read relations that may be large.
PLACED_COMMANDS = ("init", "apply", "refresh", "query", "explain", "shell", "whatif", "verify", "migrate")
# Commands that make epochs of a store, one by one, and can say how they went.
REPORTED_COMMANDS = ("init", "apply", "refresh")
# Those that only look at files, which may be where Spark's Java has to read them.
UNPLACED_COMMANDS = ("history", "vacuum")
STORE_COMMANDS = (*PLACED_COMMANDS, *UNPLACED_COMMANDS)
COMMANDS = ("run", "check", "format", "lsp", *STORE_COMMANDS, "network", "help")

OVERVIEW = """\
sempre keeps the consequences of Datalog rules up to date.

one run
  sempre run PROGRAM.dl -F FACTS -D OUT    evaluate: R.facts in, R.csv out
  sempre run PROGRAM.dl -D -               the same, printed
  sempre network PROGRAM.dl -F FACTS       rules with locations (@), on many nodes

a store: facts and results that are kept
  sempre init STORE PROGRAM.dl -F FACTS    make one, in a directory or behind a URL
  sempre apply STORE CHANGES...            bring it up to date, by changes
  sempre refresh STORE                     bring it to what its sources have now
  sempre query STORE 'reach("a", X)'       ask
  sempre shell STORE                       ask, line after line
  sempre explain STORE 'reach("a", "c")'   why a fact holds; --not: why it does not
  sempre whatif STORE CHANGES              what changes would do; nothing is kept
  sempre history STORE                     the epochs, a line each
  sempre verify STORE                      compare with a run from scratch
  sempre vacuum STORE                      drop past epochs
  sempre migrate STORE NEW.dl              go on with other rules

programs
  sempre check PROGRAM.dl                  errors, warnings and strata; -v: plans
  sempre format PROGRAM.dl                 in one form, with its comments
  sempre lsp                               what editors start: errors, names, hovers

  sempre run --help                        every option of a command
"""


SHOWN = ("initial-ast", "transformed-program", "transformed-ast", "plans", "distribution")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]  # argparse exits; main does that here
        raise UsageError(f"{message}\nhint: {self.prog} --help lists the options")


def parse(argv: list[str]) -> argparse.Namespace:
    """The options of one command; raises `UsageError`, or `SystemExit(0)` after printing help or the version."""
    if not argv or argv == ["help"] or argv[0] in ("-h", "--help"):
        print(OVERVIEW, end="")
        raise SystemExit(0)
    if argv[0] == "--version":
        print(f"sempre {installed_version()}")
        raise SystemExit(0)
    if argv[0] == "help":
        argv = [argv[1], "--help"]
    if argv[0] not in COMMANDS:
        instead = f"the commands are {', '.join(COMMANDS)}"
        similar = get_close_matches(argv[0], COMMANDS, n=1)
        if similar:
            instead = " ".join(["sempre", *similar, *argv[1:]])
        elif any(word.endswith(".dl") for word in argv):
            instead = f"sempre run {' '.join(argv)}"
        raise UsageError(f"unknown command `{argv[0]}`\nhint: {instead}")
    options = _parser(argv[0]).parse_args(argv[1:])
    options.command = argv[0]
    if options.command in ("run", *PLACED_COMMANDS):
        _check_place(options)
    if options.command in UNPLACED_COMMANDS:
        _check_session(options)
    if options.command in ("run", *REPORTED_COMMANDS):
        check_written(options, "report", "profile")
    if options.command == "run":
        _check_run(options)
    if options.command == "network":
        _check_network(options)
    return options


def installed_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("sempre")
    except PackageNotFoundError:
        return "from source, not installed"


def _parser(command: str) -> _Parser:
    if command == "format":
        parser = _Parser(prog="sempre format", allow_abbrev=False, description="Write programs in one form, in place.")
        parser.add_argument("files", metavar="PROGRAM.dl", type=Path, nargs="+", help="programs; - is standard input")
        parser.add_argument("--check", action="store_true", help="change nothing; exit code 1 if something would")
        return parser
    if command == "check":
        parser = _Parser(prog="sempre check", allow_abbrev=False, description="Report what is wrong with a program.")
        parser.add_argument("program", metavar="PROGRAM.dl", type=Path)
        parser.add_argument("-v", "--verbose", action="store_true", help="also print the plan of every rule")
        parser.add_argument("--modules", metavar="auto|off|LIST", default="auto", help=MODULES_HELP)
        parser.add_argument("--show", choices=SHOWN, help="print this, and nothing else")
        add_reading(parser.add_argument)
        add_refused(parser.add_argument, ("-v", "--verbose", "--show"))
        return parser
    if command == "lsp":
        parser = _Parser(prog="sempre lsp", allow_abbrev=False, description="Answer an editor: the language server.")
        parser.add_argument("--stdio", action="store_true", help="on standard input and output, as always")
        add_reading(parser.add_argument)
        return parser
    if command in STORE_COMMANDS:
        return _store_parser(command)
    return _network_parser() if command == "network" else _run_parser()


def _store_parser(command: str) -> _Parser:
    about = {
        "init": "Make a store: a directory that keeps the facts and the results of a program.",
        "apply": "Apply changes to a store, one epoch per commit.",
        "refresh": "Bring a store to what its .input files and tables have now, as one epoch, and write its .outputs.",
        "query": "Print the answers to an atom, from a store or from a program: a table on a terminal, CSV elsewhere.",
        "explain": "Say why a fact holds: a proof of least height, first the facts that it rests on.",
        "shell": "Answer questions to a store or a program, one a line; in a pipe as well.",
        "whatif": "Print what changes, or other rules, would do; nothing is kept.",
        "verify": "Compare a store with a run from scratch. Exit code 0: equal, 3: not, 1: a file is damaged.",
        "history": "Print the epochs of a store, one line each.",
        "vacuum": "Drop past epochs and what only they need.",
        "migrate": "Bring a store over to another program: explicit facts stay, the rest is derived again.",
    }
    parser = _Parser(prog=f"sempre {command}", allow_abbrev=False, description=about[command])
    add = parser.add_argument
    add("store", metavar="STORE or PROGRAM.dl" if command in ("query", "shell") else "STORE")
    if command in ("init", "migrate"):
        add("program", metavar="PROGRAM.dl", type=Path)
    if command in ("init", "migrate", "query", "shell", "whatif"):
        add_reading(add)
    if command in ("apply", "whatif"):
        add("changes", metavar="FILE_OR_DIR", type=Path, nargs="+" if command == "apply" else "*",
            help="a change script, or a folder of R.insert.facts and R.delete.facts")  # fmt: skip
    if command == "query":
        add("query", metavar="ATOM", help="such as 'reach(\"a\", X)'")
        add("--epoch", metavar="N", type=_number, help="ask an earlier epoch")
        add("--drop", action="store_true", help="keep the answers of a relation on demand no longer")
        add("-F", "--facts", metavar="DIR", help="of a program: where R.facts are read (default: here)")
    if command == "whatif":
        add("--rules", metavar="NEW.dl", type=Path, help="what other rules would do, instead of changes")
    if command == "shell":
        add("-F", "--facts", metavar="DIR", help="of a program: where R.facts are read (default: here)")
    if command == "explain":
        _add_explain(add)
    if command == "init":
        add("-F", "--facts", metavar="DIR", help="where R.facts are read (default: here, those that are there)")
        add("--demand", metavar="RELATION", action="append", default=[],
            help="derive of this relation what questions ask for; as `demand` at its declaration")  # fmt: skip
        add("-D", "--output", metavar="DIR", default="",
            help="write the .outputs there, now and after every epoch (default: nowhere)")  # fmt: skip
        _add_root(add)
    if command == "refresh":
        add("-F", "--facts", metavar="DIR", help="where R.facts are read from now on (default: as before)")
        add("-D", "--output", metavar="DIR", help="where .outputs are written from now on (default: as before)")
        add("--overwrite", action="store_true",
            help="make relations what their sources say, also those that `apply` has changed")  # fmt: skip
        add("--fail-on-recompute", action="store_true", help="apply nothing where something would be evaluated anew")
        add("-v", "--verbose", action="store_true", help="also say how every source was read")
    if command in REPORTED_COMMANDS:
        _add_reports(add)
    if command in PLACED_COMMANDS:
        where = parser.add_argument_group("where it is evaluated").add_argument
        where("--on", choices=("spark", "local"), default="local",
              help="local (default): this process alone; spark: also by Spark, where it does not fit here")  # fmt: skip
        where("--place", choices=PLACES, default="auto")
        where("--workers", metavar="N", type=_positive, help=WORKERS_HELP)
        where("--memory", metavar="SIZE", type=_size, help="such as 512M or 2G")
        _add_session(where)
        _add_progress(add)
    if command in UNPLACED_COMMANDS:
        where = parser.add_argument_group("where the store is").add_argument
        where("--on", choices=("spark", "local"), default="local",
              help="spark: where Python has no client for its URL, and Spark's Java has")  # fmt: skip
        _add_session(where)
    add_functors(add)
    if command in ("init", "apply", "refresh", "whatif", "verify", "migrate"):
        add("--strategy", choices=STRATEGY_NAMES, default="auto")
        add("--switch", metavar="SHARE|never", type=_share, help=SWITCH_HELP)
        add("--threads", metavar="N", type=_positive)
    if command == "verify":
        add("--repair", action="store_true", help="where it differs, write the right state as a new epoch")
    if command == "history":
        add("--sources", action="store_true", help="also say which versions of its sources every epoch has")
        add(
            "--metrics",
            action="store_true",
            help="print figures of the last epoch as OpenMetrics text, for Prometheus and its likes",
        )
    if command == "vacuum":
        add("--keep", metavar="N", type=_positive, default=1, help="how many epochs stay (default: 1, the current)")
    return parser


def _add_reports(add: Callable[..., object]) -> None:
    add("--report", metavar="FILE.json", type=Path, help="write what was done, and how long it took")
    add("--profile", metavar="FILE.html", type=Path,
        help="write a page of what strata, rules and rounds took; measuring takes a little time itself")  # fmt: skip


def _add_explain(add: Callable[..., object]) -> None:
    add("fact", metavar="FACT", help='such as \'reach("a", "c")\'')
    add("--not", dest="absent", action="store_true", help="why it does not hold, and what is missing")
    add("--between", metavar=("N", "M"), nargs=2, type=_number, help="why it came or went between two epochs")
    add("--all", metavar="N", type=_positive, help="up to N ways to derive the fact (default: 1)")
    add("--depth", metavar="N", type=_positive, help="tell N levels (default: all)")
    add("--epoch", metavar="N", type=_number, help="ask an earlier epoch")
    add("--check", action="store_true", help="have the proof replayed by a checker that knows the rules alone")
    add("--json", action="store_true", help="print the document that the other forms are made of")
    add("--dot", action="store_true", help="print a graph for Graphviz")
    add("--html", metavar="FILE", type=Path, help="write a page that holds all it needs")


def add_functors(add: Callable[..., object]) -> None:
    add("--functors", metavar="FILE.py", type=Path, action="append", default=[],
        help="Python with functions decorated by `@sempre.functor`, for `.functor` declarations")  # fmt: skip


def _share(text: str) -> float | str:
    if text == "never":
        return text
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not share >= 0:
        raise argparse.ArgumentTypeError(f"`{text}` is neither a number from 0 nor `never`")
    return share


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"`{text}` is not a number from 0")
    return int(text)


def _network_parser() -> _Parser:
    parser = _Parser(
        prog="sempre network", allow_abbrev=False, description="Run a program with locations on many nodes."
    )
    add = parser.add_argument
    add("program", metavar="PROGRAM.dl", type=Path)
    add(
        "-F",
        "--facts",
        metavar="DIR",
        default=".",
        help="where R.facts are read (default: here); with Spark also a URL",
    )
    add("-D", "--output", metavar="DIR", default=".", help="where R.csv are written (default: here); - prints")
    _add_root(add)
    add_reading(add)
    add("--changes", metavar="FILE_OR_DIR", type=Path, action="append", default=[],
        help="a change script, or a folder of R.insert.facts and R.delete.facts; every epoch is a burst")  # fmt: skip
    add("--overlap", action="store_true", help="let a burst begin before the one before it has settled")
    add("--algorithm", choices=NETWORK_ALGORITHMS, default="auto", help="how nodes keep what they derive")
    add(
        "--report",
        metavar="FILE.json",
        type=Path,
        help="write messages and bytes per burst, per node and per link",
    )
    add("--plot", metavar="FILE.html|.png", type=Path, help="draw messages over time, and the topology")
    add("--limit", metavar="N", type=_positive, default=50_000_000, help="stop after this many messages")
    where = parser.add_argument_group("where nodes are").add_argument
    where("--on", choices=("spark", "local"),
          help="spark (default): in tasks of a Spark session; local: in processes of this machine")  # fmt: skip
    where("--workers", metavar="N", type=_positive, help="how many processes host them (default: as many as can run)")
    where(
        "--placement", choices=NETWORK_PLACEMENTS, default="auto", help="which process hosts which node (default: auto)"
    )
    _add_session(where)
    simulated = parser.add_argument_group("nodes of this process, one message at a time").add_argument
    simulated("--simulate", metavar="SEED|rounds", type=_seed,
              help="deliver messages in an adversarial order, or all that are there at once")  # fmt: skip
    simulated("--replay", metavar="FILE.json", type=Path, help="deliver in the order of the trace in an earlier report")
    parser.set_defaults(place="auto")
    return parser


def _seed(text: str) -> int | str:
    if text == "rounds":
        return text
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"`{text}` is neither a whole number nor `rounds`") from None


def _check_network(options: argparse.Namespace) -> None:
    """Refuse what a simulation has no use for, and the other way round."""
    if options.simulate is not None and options.replay:
        raise UsageError("--simulate and --replay exclude each other")
    if options.simulate is not None or options.replay:
        which = "--simulate" if options.replay is None else "--replay"
        given = [name for name in ("on", "workers", "master", "remote", "conf") if getattr(options, name)]
        if options.placement != "auto":
            given.append("placement")
        if options.overlap:
            given.append("overlap")
        if given:
            raise UsageError(f"--{given[0]} has no effect with {which}\nhint: leave it out")
        return
    options.on = options.on or "spark"
    _check_session(options)


def _run_parser() -> _Parser:
    parser = _Parser(prog="sempre run", allow_abbrev=False, description="Evaluate a program on fact files.")
    add = parser.add_argument
    add("program", metavar="PROGRAM.dl", type=Path)
    add(
        "-F",
        "--facts",
        metavar="DIR",
        default=".",
        help="where R.facts are read (default: here); with Spark also a URL",
    )
    add("-D", "--output", metavar="DIR", default=".", help="where R.csv are written (default: here); - prints")
    _add_root(add)
    add("--changes", metavar="FILE_OR_DIR", type=Path, action="append", default=[],
        help="a change script, or a folder of R.insert.facts and R.delete.facts; applied in order")  # fmt: skip
    add("--changes-out", metavar="DIR", type=Path, help="write DIR/N/R.added.csv and R.removed.csv for each epoch N")
    _add_reports(add)
    _add_progress(add)
    add_reading(parser.add_argument_group("how the program is read").add_argument)
    add_refused(add, ("--show",))
    add("--show", metavar="plans", help="print the plans that were used, on standard error")
    expert = parser.add_argument_group("how it is evaluated").add_argument
    expert("--strategy", choices=STRATEGY_NAMES, default="auto")
    expert("--switch", metavar="SHARE|never", type=_share, help=SWITCH_HELP)
    expert("--modules", metavar="auto|off|LIST", default="auto", help=MODULES_HELP)
    expert("--magic", action="store_true", help="derive only facts that can matter to the outputs")
    expert("--semantics", choices=("stratified", "active"))
    expert("--cycles", metavar="N", type=_positive, help="how many cycles active rules may take (default: 10000)")
    add_functors(expert)
    expert("-j", "--threads", "--jobs", metavar="N", dest="threads", type=jobs)
    expert("-m", "--magic-transform", metavar="RELATIONS", help=argparse.SUPPRESS)
    expert("--memory", metavar="SIZE", type=_size, help="such as 512M or 2G")
    where = parser.add_argument_group("where it is evaluated").add_argument
    where("--on", choices=("spark", "local"), default="spark",
          help="spark (default): read and write through Spark; local: this process alone, without Java")  # fmt: skip
    where("--place", choices=PLACES, default="auto")
    where("--workers", metavar="N", type=_positive, help=WORKERS_HELP)
    _add_session(where)
    return parser


def _add_progress(add: Callable[..., object]) -> None:
    add("--progress", action="store_true", help="say how far it is, also where standard error is no terminal")
    add("-q", "--quiet", action="store_true", help="do not say how far it is")


def _add_root(add: Callable[..., object]) -> None:
    add("--root", metavar="DIR", type=_folder, help="refuse a program that reads or writes outside of this folder")


def _folder(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder `{text}`")
    return path


def _add_session(add: Callable[..., object]) -> None:
    add("--master", metavar="URL", help="where Spark runs (default: local[*])")
    add("--remote", metavar="sc://HOST:PORT", help="a Spark Connect server, instead of --master")
    add("--conf", metavar="KEY=VALUE", type=_setting, action="append", default=[], help="a setting of Spark's")


def _check_place(options: argparse.Namespace) -> None:
    """Refuse places that are not there."""
    if options.workers is not None and (options.place not in ("auto", "workers") or options.on != "spark"):
        needs = "--on spark" if options.on != "spark" else "--place auto or workers"
        raise UsageError(f"--workers needs {needs}\nhint: leave it out; --threads is for this process")
    if options.on != "spark" and options.place not in ("auto", "driver"):
        raise UsageError(f"--place {options.place} needs --on spark\nhint: --on local allows --place driver only")
    _check_session(options)


def _check_session(options: argparse.Namespace) -> None:
    """Refuse what does not belong to a session."""
    if options.on == "spark":
        if options.master and options.remote:
            raise UsageError("--master and --remote exclude each other")
        return
    for name in ("master", "remote", "conf"):
        if getattr(options, name, None):
            raise UsageError(f"--{name} needs --on spark")


def _check_run(options: argparse.Namespace) -> None:
    """Refuse what no run can honor."""
    if options.show not in (None, "plans"):
        instead = f"`sempre check PROGRAM.dl --show {options.show}`; a run shows `plans`, those that were used"
        raise UsageError(f"--show={options.show} is not for a run\nhint: {instead}")
    if options.magic_transform == "*":
        options.magic = True
    elif options.magic_transform is not None:
        instead = "`--magic` is for all relations; `magic` at a declaration is for one"
        raise UsageError(f"--magic-transform takes `*` alone\nhint: {instead}")


def check_written(options: argparse.Namespace, *names: str) -> None:
    """Refuse files in folders that are not there, before anything is evaluated."""
    for name in names:
        path = getattr(options, name, None)
        if path and not path.parent.is_dir():
            raise UsageError(f"--{name}: there is no folder `{path.parent}`")


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"`{text}` is not a number from 1")
    return int(text)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"`{text}` is not a setting such as spark.sql.ansi.enabled=true")
    return key, value


def _size(text: str) -> int:
    try:
        return parse_size(text) or 0
    except StateError:
        raise argparse.ArgumentTypeError(f"`{text}` is not a size such as 512M or 2G") from None
