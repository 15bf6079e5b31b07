"""The examples for schedulers and notebooks do what they say; Airflow is played by a few lines."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sempre.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAM = """
.decl edge(x: symbol, y: symbol)
.input edge
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
.output reach
"""


class AirflowError(Exception):
    pass


class Skipped(AirflowError):
    pass


class Operator:
    """What a task of Airflow is made from."""

    made: list[Operator]

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        Operator.made.append(self)


class Dag:
    def __init__(self, dag_id: str, **options: Any) -> None:
        assert options["max_active_runs"] == 1

    def __enter__(self) -> Dag:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The operator of the example."""
    parts: dict[str, dict[str, Any]] = {
        "airflow": {},
        "airflow.exceptions": {"AirflowException": AirflowError, "AirflowSkipException": Skipped},
        "airflow.models": {},
        "airflow.models.baseoperator": {"BaseOperator": Operator},
        "airflow.models.dag": {"DAG": Dag},
        "pendulum": {"datetime": lambda *_, tz: None},
    }
    for name, content in parts.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    Operator.made = []
    return runpy.run_path(str(EXAMPLES / "schedule" / "airflow_refresh.py"))["SempreRefreshOperator"]


def test_airflow(airflow: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (task,) = Operator.made
    assert vars(task)["store"] == "{{ var.value.sempre_store }}"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.dl").write_text(PROGRAM)
    (tmp_path / "edge.facts").write_text("a\tb\n")
    assert main(["init", "s", "p.dl", "-D", "out"]) == 0
    (tmp_path / "edge.facts").write_text("a\tb\nb\tc\n")
    task = airflow(task_id="refresh", store="s")
    told = task.execute({})
    assert (told["epoch"], told["added"]) == (1, {"edge": 1, "reach": 2})
    assert (tmp_path / "out" / "reach.csv").read_text() == "a\tb\na\tc\nb\tc\n"
    (tmp_path / "s" / "PUBLISHED").unlink()  # as after a crash before the outputs were written
    assert task.execute({}) == {}
    with pytest.raises(Skipped, match="nothing new"):
        task.execute({})
    (tmp_path / "edge.facts").write_text("a\n")
    with pytest.raises(AirflowError, match="sempre refresh ended with 1"):
        task.execute({})


def test_the_notebook_runs_from_top_to_bottom() -> None:
    (path,) = EXAMPLES.glob("notebook/*.ipynb")
    notebook = json.loads(path.read_text("utf-8"))
    assert notebook["nbformat"] == 4
    names: dict[str, Any] = {}
    shown = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            source = "".join(cell["source"])
            *lines, last = source.split("\n")
            try:
                value = compile(last, str(path), "eval")
            except SyntaxError:  # the last line is a part of a statement
                exec(source, names)
                continue
            exec("\n".join(lines), names)
            found = eval(value, names)
            shown.append(getattr(found, "_repr_html_", lambda: "")())
    assert sum(text.startswith("<iframe") for text in shown) == 2  # a proof and a profile
    assert any("<b>above</b>: 6 rows" in text for text in shown)
