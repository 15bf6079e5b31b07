"""The programs that an editor works on: which there are, which files each is made of, and what is known of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from sempre.diagnostics import Diagnostic
from sempre.lang.preprocessor import PLAIN, Preprocessing
from sempre.lsp.program_reading import Reading

# Programs that include others are looked for among so many files of a folder.
MOST_FILES = 2_000

_INCLUDES = re.compile(r"^[ \t]*(?:#[ \t]*|\.)include\b", re.MULTILINE)


class Programs:
    """All programs that are open, and those in the editor's folders that include files.

    A file that programs include is looked at as a part of these, and else as a program of its own.
    """

    def __init__(self, settings: Preprocessing = PLAIN, *, legacy: bool = False, warnings: bool = True) -> None:
        self.open: dict[str, str] = {}
        self.folders: list[Path] = []
        self._settings = settings
        self._legacy = legacy
        self._warnings = warnings
        self._readings: dict[str, Reading] = {}
        self._sound: dict[str, Reading] = {}
        self._including: frozenset[str] | None = None

    def put(self, file: str, text: str) -> None:
        """An editor has a file open, with this text."""
        self.open[file] = text
        self._forget(file)

    def close(self, file: str) -> None:
        """The file is again what it is on the disk."""
        self.open.pop(file, None)
        self._forget(file)

    def refresh(self) -> None:
        """Files on the disk may have changed."""
        self._readings.clear()
        self._including = None

    def text(self, file: str) -> str:
        """A file as the editor has it, or else as it is on the disk."""
        if file in self.open:
            return self.open[file]
        try:
            return Path(file).read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError):
            return ""

    def reading(self, file: str) -> Reading:
        """What is known of the program in a file."""
        found = self._readings.get(file)
        if found is None:
            settings = replace(self._settings, texts=dict(self.open))
            found = self._readings[file] = Reading(file, self.text(file), settings, legacy=self._legacy)
        return found

    def sound(self, reading: Reading) -> Reading | None:
        """The program when it was last without errors; it may be without them now."""
        if reading.checked is not None:
            self._sound[reading.file] = reading
        return self._sound.get(reading.file)

    def of(self, file: str) -> list[Reading]:
        """The programs that a file is part of: those that include it, or else itself."""
        including = [self.reading(each) for each in sorted(self._roots()) if each != file]
        return [reading for reading in including if file in reading.sources] or [self.reading(file)]

    def findings(self, files: Iterable[str]) -> Iterator[tuple[str, list[Diagnostic]]]:
        """What is wrong in files, and in those that belong to the same programs; the file, and what is wrong there."""
        concerned = {each: None for file in files for reading in self.of(file) for each in (file, *reading.sources)}
        for file in concerned:
            found = [each for reading in self.of(file) for each in reading.diagnostics if _home(each, reading) == file]
            yield file, [each for each in dict.fromkeys(found) if self._warnings or each.severity == "error"]

    def _forget(self, file: str) -> None:
        """Look again at what is made of a file, or may be: a file that was missing may be there now."""
        self._readings = {
            name: reading
            for name, reading in self._readings.items()
            if file not in reading.sources and name != file and not _lacks_a_file(reading)
        }
        if self._including is not None and _INCLUDES.search(self.text(file)):
            self._including |= {file}

    def _roots(self) -> frozenset[str]:
        """The files that may include others."""
        if self._including is None:
            files = {os.path.normpath(path) for folder in self.folders for path in _programs_in(folder)}
            self._including = frozenset(file for file in files | set(self.open) if _INCLUDES.search(self.text(file)))
        return self._including


def _programs_in(folder: Path) -> Iterator[Path]:
    """The programs below a folder, hidden folders left out."""
    count = 0
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "node_modules")
        for name in sorted(files):
            count += 1
            if count > MOST_FILES:
                return
            if name.endswith(".dl"):
                yield Path(where) / name


def _home(finding: Diagnostic, reading: Reading) -> str:
    """The file in which a finding is shown; the program itself, where it has no place."""
    return finding.span.file if finding.span.file in reading.sources else reading.file


def _lacks_a_file(reading: Reading) -> bool:
    return any(each.code == "E147" for each in reading.syntax_errors)
