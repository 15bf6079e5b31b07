"""Each layer of the package imports only from the layers below it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "sempre"

LAYERS = (  # top first; names in one row are independent of each other
    "__init__ __main__",
    "cli",
    "lsp",
    "api",
    "explain",
    "query network verify storage",
    "active",
    "spark",
    "ingest results",
    "files engine",
    "places workers",
    "maintain backends",
    "modules carrier",
    "rewrites",
    "plan",
    "analysis",
    "lang sizes",
    "kernel diagnostics catalog unsplit",
    "limits python_functions",
    "data",
)
RANK = {name: depth for depth, row in enumerate(LAYERS) for name in row.split()}


def imports_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every (line, dotted name) that a module imports; `from a import b` gives `a.b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def layer_of(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def violations(home: str, tree: ast.AST) -> list[str]:
    """What `home` must not import, one message each."""
    found = []
    for line, name in imports_of(tree):
        parts = name.split(".")
        if parts[0] != "sempre" or home == "__init__":
            continue
        # `import sempre` and `from sempre import Database` reach the top of the package.
        target = parts[1] if len(parts) > 1 and parts[1] in RANK else "__init__"
        if target != home and RANK[home] >= RANK[target]:
            found.append(f"line {line}: {home} must not import {target}")
    return found


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_layer_imports_only_from_below(path: Path) -> None:
    home = layer_of(path)
    assert home in RANK, f"{home} has no layer: add it to LAYERS and to docs/dev/architecture.md"
    assert violations(home, ast.parse(path.read_text("utf-8"))) == []


@pytest.mark.parametrize(
    ("home", "source"),
    [
        ("kernel", "from sempre.plan import ops"),
        ("files", "import sempre.explain"),
        ("lang", "def f():\n    from sempre.analysis.model import Kind"),
        ("engine", "import sempre"),
        ("engine", "from sempre import api"),
    ],
)
def test_a_planted_violation_is_found(home: str, source: str) -> None:
    assert len(violations(home, ast.parse(source))) == 1


def test_what_is_below_may_be_imported() -> None:
    assert violations("files", ast.parse("from sempre.analysis.model import Kind\nimport sempre.lang.parser")) == []
    assert violations("cli", ast.parse("from sempre import api, files\nfrom sempre.diagnostics import Span")) == []


def test_few_files_ask_java() -> None:
    """On Spark all is done by DataFrames, but for what docs/design/0015-java.md names."""
    asking = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if _asks_java(path.read_text("utf-8"))}
    assert asking == {"spark/targets.py", "spark/hadoop_files.py", "storage/session_disk.py"}


def _asks_java(source: str) -> bool:
    attributes = {node.attr for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)}
    texts = {node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)}
    return bool({"_jvm", "_jsc", "_jsparkSession", "rdd"} & (attributes | texts))
