"""What is handed over instead of text, paths, sessions and numbers is refused by name."""

from __future__ import annotations

import builtins
import copy
import pickle
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import sempre
from sempre import SempreError

NO_STREAM: Any = []
RULES = ".decl edge(x: number, y: number)\n.decl reach(x: number, y: number)\nreach(x, y) :- edge(x, y).\n"


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(SempreError) as caught:
        call()
    return str(caught.value)


def made(**options: Any) -> sempre.Database:
    return sempre.Database(RULES, **options)


@pytest.mark.parametrize("what", [5, None, b"reach(1, X)", ["reach(1, X)"], object])
def test_a_question_and_a_fact_are_text(what: Any) -> None:
    kind = "None" if what is None else type(what).__name__
    with made() as db:
        question = f"error[E600]: a question is text, and this is {kind}\nhint: Such as 'reach(\"a\", X)'."
        assert refusal(lambda: db.query(what)) == question
        assert refusal(lambda: db.release(what)) == question
        assert refusal(lambda: db.program.query(what)) == question
        assert refusal(lambda: db.explain(what)).startswith(f"error[E600]: a fact is text, and this is {kind}")
        assert refusal(lambda: db.explain(what, absent=True)).startswith("error[E600]: a fact is text")


@pytest.mark.parametrize("what", [5, 0, [], ("a",), b"place", True, object()])
def test_a_place_is_a_path(what: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kind = type(what).__name__
    end = f" is a path or a URL, and this is {kind}\nhint: Use text or a `pathlib.Path`."
    assert refusal(lambda: made(store=what)) == f"error[E600]: a store{end}"
    assert refusal(lambda: sempre.Database.open(what)) == f"error[E600]: a store{end}"
    assert refusal(lambda: sempre.Program.from_file(what)) == f"error[E600]: the file of a program{end}"
    assert refusal(lambda: made().load(what)) == f"error[E600]: a folder of facts{end}"
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("option", "value"), [*(("depth", each) for each in (0, -1, 1.5, "1", True)), ("further", -1), ("further", "x")]
)
def test_counts_are_whole_numbers(option: str, value: Any) -> None:
    with made() as db:
        db.apply(insert={"edge": [(1, 2)]})
        assert f"`{option}` is {value!r}" in refusal(lambda: db.explain("reach(1, 2)", **{option: value}))


def test_options_of_another_kind() -> None:
    assert refusal(lambda: made(spark="local[2]")) == (
        "error[E700]: `spark` is a session, and this is str\n"
        "hint: Use a SparkSession, such as `SparkSession.builder.getOrCreate()`."
    )
    network = ".decl link(@s: number, d: number)\n"
    assert "`spark` is a session" in refusal(lambda: sempre.Network(network, spark=5))
    assert "`progress` is called, and this is int" in refusal(lambda: made(progress=5))
    assert "`limits` is dict" in refusal(lambda: made(limits={}))
    assert refusal(lambda: made(demand=5)).splitlines()[0] == "error[E600]: `demand` is 5"
    assert "`demand` is b'reach'" in refusal(lambda: made(demand=b"reach"))
    assert "a stream is a DataFrame, and this is list" in refusal(lambda: made().maintain(NO_STREAM))


def test_one_name_on_demand_is_a_name_and_not_its_letters() -> None:
    with made(demand="reach") as db:
        assert db.program.relations["reach"].qualifiers == {"demand"}


def test_a_decorator_without_its_name_says_how_it_is_given() -> None:
    decorators: tuple[Any, ...] = (sempre.functor, sempre.aggregate)
    for decorator in decorators:
        with pytest.raises(TypeError, match="decorates a function, and this is 'twice'; a name is given by `name=`"):
            decorator("twice")


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_frame_without_its_package(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(name)
        return real(name, *rest, **more)

    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(builtins, "__import__", without)
    with made() as db:
        message = refusal(getattr(db["reach"], f"to_{package}"))
    assert message == (
        f"error[E663]: a frame of {package} needs the package `{package}`\n"
        f"hint: Install it: pip install {package}. `to_arrow()` needs nothing."
    )


def test_errors_and_changes_cross_to_other_processes_whole() -> None:
    with pytest.raises(sempre.ProgramError) as caught:
        sempre.Program("p(x) :- q(x).\nr(")
    for other in (pickle.loads(pickle.dumps(caught.value)), copy.deepcopy(caught.value)):
        assert type(other) is sempre.ProgramError
        assert (str(other), other.diagnostics) == (str(caught.value), caught.value.diagnostics)
    with made() as db:
        changes = db.apply(insert={"edge": [(1, 2)]})
        sent = pickle.loads(pickle.dumps(changes))
        assert sent.added["reach"].to_pylist() == [{"x": 1, "y": 2}]
        assert sent.report == changes.report
        assert pickle.loads(pickle.dumps(db.whatif(delete={"edge": [(1, 2)]}))).removed["reach"].num_rows == 1
        for what in (db, db["reach"], db.explain("reach(1, 2)")):
            sends: tuple[Callable[[object], object], ...] = (pickle.dumps, copy.deepcopy)
            for send in sends:
                message = refusal(partial(send, what))
                assert message.startswith("error[E600]: a database cannot be copied, nor sent to another process")
