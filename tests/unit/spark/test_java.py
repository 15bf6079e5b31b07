"""Java is found, or the message says what to do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sempre.diagnostics import BackendError
from sempre.spark import java


def fake_java(home: Path, version: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n", "utf-8")
    program.chmod(0o755)
    return home


@pytest.fixture
def bundled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty machine; returns where set-up would put Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'path' / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(java, "BUNDLED", tmp_path / "bundled")
    return tmp_path / "bundled"


def test_java_home_comes_first(bundled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(bundled, "21.0.8")
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "mine", "17.0.1")))
    assert java.find_java() == tmp_path / "mine"


def test_an_old_java_is_passed_over(bundled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(bundled, "21.0.8")
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "1.8.0_292")))
    on_path = fake_java(tmp_path / "path", "11.0.2") / "bin" / "java"
    monkeypatch.setattr(shutil, "which", lambda _: str(on_path))
    assert java.find_java() == bundled


def test_no_java_is_an_error_that_lists_what_was_found(
    bundled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "11.0.2")))
    with pytest.raises(BackendError, match="Spark needs Java 17 or later") as caught:
        java.find_java()
    (finding,) = caught.value.diagnostics
    assert (finding.code, finding.detail) == ("E703", f"{tmp_path / 'old'} has Java 11")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(BackendError, match="no Java that starts"):
        java.find_java()
