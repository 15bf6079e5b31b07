"""A name means one thing: no two classes, no two files and no two numbers of one name."""

import ast
import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "sempre"


@functools.cache
def trees() -> dict[str, ast.Module]:
    """Every module of the package, by its path."""
    return {str(path.relative_to(SOURCE)): ast.parse(path.read_text("utf-8")) for path in sorted(SOURCE.rglob("*.py"))}


def classes(tree: ast.Module) -> Iterator[str]:
    """The names of all classes, wherever they stand."""
    return (node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def numbers(tree: ast.Module) -> Iterator[tuple[str, float]]:
    """The constants of a module that are numbers, with their values."""
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and target.id.isupper() and isinstance(value, ast.expr):
            number = number_of(value)
            if number is not None:
                yield target.id, number


def number_of(expr: ast.expr) -> float | None:
    """The value of an expression of nothing but numbers."""
    allowed = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
    if not all(isinstance(node, allowed) for node in ast.walk(expr)):
        return None
    value = eval(compile(ast.Expression(expr), "<number>", "eval"))
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def repeated(homes: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Names that occur in more than one place, with these; `homes` has the names of each place."""
    found = defaultdict(list)
    for home, names in homes.items():
        for name in names:
            found[name].append(home)
    return {name: places for name, places in found.items() if len(places) > 1}


def ambiguous(homes: Mapping[str, Iterable[tuple[str, float]]]) -> dict[str, dict[str, float]]:
    """Constants that have several values, with the value that each place gives them."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for home, pairs in homes.items():
        for name, value in pairs:
            found[name][home] = value
    return {name: places for name, places in found.items() if len(set(places.values())) > 1}


def test_no_two_classes_have_one_name() -> None:
    assert repeated({home: classes(tree) for home, tree in trees().items()}) == {}


def test_no_two_files_have_one_name() -> None:
    names = {home: [Path(home).name] for home in trees() if Path(home).name != "__init__.py"}
    assert repeated(names) == {}


def test_a_constant_has_one_value() -> None:
    assert ambiguous({home: numbers(tree) for home, tree in trees().items()}) == {}


def test_repetitions_are_seen() -> None:
    one = ast.parse("class A:\n    class B: ...\nMOST = 1 << 4\nFEW: int = 3\nTEXT = 'x'")
    two = ast.parse("class B: ...\nMOST = 16\nFEW = -3\nTEXT = 4 if True else 5")
    assert repeated({"one": classes(one), "two": classes(two)}) == {"B": ["one", "two"]}
    assert ambiguous({"one": numbers(one), "two": numbers(two)}) == {"FEW": {"one": 3, "two": -3}}
