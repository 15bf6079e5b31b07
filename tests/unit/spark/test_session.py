"""What a session is started with, and what is said when it is not."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from sempre.cli import main
from sempre.spark.session import SessionOptions

PROGRAM = ".decl p(x: number)\np(1).\n.printsize p\n"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "p.dl"
    path.write_text(PROGRAM, "utf-8")
    return path


def test_the_user_s_settings_win() -> None:
    options = SessionOptions(conf={"spark.driver.memory": "9g"})
    assert (options.settings()["spark.driver.memory"], options.settings()["spark.ui.enabled"]) == ("9g", "false")
    assert options.needs_java


def test_a_cluster_gets_none_of_the_local_settings() -> None:
    assert "spark.driver.host" not in SessionOptions("spark://host:7077").settings()
    remote = SessionOptions(remote="sc://host:15002", conf={"a": "b"})
    assert (remote.settings(), remote.needs_java) == ({"a": "b"}, False)


def test_spark_that_is_not_installed(
    program: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyspark" else found(name))
    assert main(["run", str(program)]) == 2
    assert capsys.readouterr().err == (
        "error[E702]: Spark is not installed: there is no module `pyspark`\n"
        "hint: Install it with: pip install 'sempre[spark]'; --on local evaluates without Spark.\n"
    )


def test_without_spark_neither_java_nor_pyspark_is_loaded(program: Path) -> None:
    code = (
        "import sys, sempre, sempre.cli\n"
        f"assert sempre.cli.main(['run', {str(program)!r}, '--on', 'local']) == 0\n"
        "print([name for name in sys.modules if name.startswith(('pyspark', 'py4j', 'sempre.spark'))])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "p\t1\n[]\n"


@pytest.mark.parametrize(
    ("directive", "what"),
    [
        (".input p(IO=spark)", "IO=spark"),
        ('.input p(IO=jdbc, url="jdbc:x:y")', "IO=jdbc"),
        (".output p(IO=json, mode=changes)", "mode=changes"),
    ],
)
def test_directives_that_need_spark(
    program: Path, directive: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program.write_text(PROGRAM + directive + "\n", "utf-8")
    assert main(["run", str(program), "--on", "local"]) == 1
    assert f"error[E515]: `{what}` needs Spark\n" in capsys.readouterr().err
    assert main(["check", str(program)]) == 0
