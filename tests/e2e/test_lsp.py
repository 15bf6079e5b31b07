"""The language server as an editor has it: a process, asked by a client over standard input and output."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.lsp.client import LanguageClient

from sempre.lang.formatter import formatted

LIBRARY = """\
// Whether somebody is known.
.decl known(name: symbol)
known("a").
"""
PROGRAM = """\
#include "library.dl"
#define NEAR(x, y) link(x, y)
.type City <: symbol
.comp Graph<N> {
  .decl edge(x: N, y: N)
  .decl path(x: N, y: N)
  path(x, y) :- edge(x, y).
  path(x, z) :- path(x, y), edge(y, z).
}
.init roads = Graph<City>
.decl link(a: City, b: City)
.input link
roads.edge(a, b) :- NEAR(a, b).
.decl far(a: City, b: City)
// "é😀" moves what an editor counts: 𝕏
/* 😀 */ far(start, end) :- roads.path(start, end), !link(start, end), known(start).
.output far
"""


class Editor:
    """A client, its server, and what the server said about files."""

    def __init__(self, client: LanguageClient, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.texts: dict[str, str] = {}
        self.found: dict[str, list[lsp.Diagnostic]] = {}
        self.told = asyncio.Event()

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def open(self, name: str, text: str) -> None:
        self.texts[name] = text
        document = lsp.TextDocumentItem(self.uri(name), "souffle", 1, text)
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(document))

    def type(self, name: str, old: str, new: str) -> None:
        """Replace a text, as an edit of the one range where it stands."""
        assert self.texts[name].count(old) == 1
        change = lsp.TextDocumentContentChangePartial(self.range(name, old), new)
        document = lsp.VersionedTextDocumentIdentifier(2, self.uri(name))
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(document, [change]))
        self.texts[name] = self.texts[name].replace(old, new)

    def range(self, name: str, text: str) -> lsp.Range:
        begin = self.texts[name].index(text)
        return lsp.Range(self.position(name, begin), self.position(name, begin + len(text)))

    def position(self, name: str, offset: int) -> lsp.Position:
        """Editors count in UTF-16."""
        before = self.texts[name][:offset]
        return lsp.Position(before.count("\n"), len(before.rpartition("\n")[2].encode("utf-16-le")) // 2)

    def at(self, name: str, marked: str) -> tuple[lsp.TextDocumentIdentifier, lsp.Position]:
        """The place of `|` in a stretch of a file."""
        offset = self.texts[name].index(marked.replace("|", "")) + marked.index("|")
        return lsp.TextDocumentIdentifier(self.uri(name)), self.position(name, offset)

    async def checked(self, name: str, wanted: Callable[[list[str]], bool]) -> list[lsp.Diagnostic]:
        """What is said about a file, once that is what is wanted; fails when it never is."""
        async with asyncio.timeout(30):
            while self.uri(name) not in self.found or not wanted(self.codes(name)):
                self.told.clear()
                await self.told.wait()
        return self.found[self.uri(name)]

    def codes(self, name: str) -> list[str]:
        return [str(each.code) for each in self.found[self.uri(name)]]

    def applied(self, edit: lsp.WorkspaceEdit) -> dict[str, str]:
        """The texts after an edit."""
        texts = dict(self.texts)
        for uri, edits in (edit.changes or {}).items():
            name = Path(uri).name
            for each in sorted(edits, key=lambda one: (one.range.start.line, one.range.start.character), reverse=True):
                lines = texts[name].split("\n")
                assert each.range.start.line == each.range.end.line
                line = lines[each.range.start.line].encode("utf-16-le")
                begin, end = 2 * each.range.start.character, 2 * each.range.end.character
                new = line[:begin] + each.new_text.encode("utf-16-le") + line[end:]
                lines[each.range.start.line] = new.decode("utf-16-le")
                texts[name] = "\n".join(lines)
        return texts


@asynccontextmanager
async def editing(folder: Path, *options: str) -> AsyncIterator[Editor]:
    """An editor that has a folder open; the server ends with it, and well."""
    client = LanguageClient("test", "1")
    editor = Editor(client, folder)

    @client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)  # type: ignore[untyped-decorator]
    def tell(params: lsp.PublishDiagnosticsParams) -> None:
        editor.found[params.uri] = list(params.diagnostics)
        editor.told.set()

    await client.start_io(sys.executable, "-m", "sempre.cli", "lsp", "--stdio", *options)
    known = await client.initialize_async(
        lsp.InitializeParams(
            lsp.ClientCapabilities(), workspace_folders=[lsp.WorkspaceFolder(folder.as_uri(), folder.name)]
        )
    )
    assert known.capabilities.rename_provider
    client.initialized(lsp.InitializedParams())
    try:
        yield editor
    finally:
        await client.shutdown_async(None)
        client.exit(None)
        async with asyncio.timeout(20):
            assert await client._server.wait() == 0  # type: ignore[union-attr]
        await client.stop()  # type: ignore[no-untyped-call]


def run(steps: Coroutine[Any, Any, None]) -> None:
    asyncio.run(steps)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "library.dl").write_text(LIBRARY, "utf-8")
    (tmp_path / "program.dl").write_text(PROGRAM, "utf-8")
    return tmp_path


def test_what_is_wrong_is_what_check_says(folder: Path) -> None:
    broken = ("known(start)", "known(start, 1), unknown(x) ; ("), ("known(start, 1), unknown(x) ; (", "knwn(start)")

    async def steps() -> None:
        async with editing(folder) as editor:
            editor.open("program.dl", PROGRAM)
            assert await editor.checked("program.dl", lambda codes: not codes) == []
            for old, new in broken:
                editor.type("program.dl", old, new)
                found = await editor.checked("program.dl", bool)
                (folder / "broken.dl").write_text(editor.texts["program.dl"], "utf-8")
                command = [sys.executable, "-m", "sempre.cli", "check", str(folder / "broken.dl")]
                said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
                places = [(str(each.code), each.message.split("\n")[0], each.range.start.line + 1) for each in found]
                shown = re.findall(r"^\w+\[(\w+)\]: (.*)\n  --> .*:(\d+):\d+", said, re.MULTILINE)
                assert places == [(code, message, int(line)) for code, message, line in shown]
                editor.found.clear()
            editor.type("program.dl", "knwn(start)", "known(start)")
            assert await editor.checked("program.dl", lambda codes: not codes) == []

    run(steps())


def test_an_included_file_is_seen_as_the_editor_has_it(folder: Path) -> None:
    async def steps() -> None:
        async with editing(folder) as editor:
            editor.open("library.dl", LIBRARY)
            # A program of the folder includes it, so it is no program that declares nothing that is used.
            assert await editor.checked("library.dl", lambda codes: not codes) == []
            editor.type("library.dl", 'known("a")', "known(1)")
            found = await editor.checked("library.dl", bool)
            assert [(each.code, each.range.start.line) for each in found] == [("E301", 2)]
            editor.type("library.dl", "known(name: symbol)", "known(name: number)")
            assert "E301" in [each.code for each in await editor.checked("program.dl", bool)]
            assert editor.codes("library.dl") == []

    run(steps())


def test_definitions_and_hovers(folder: Path) -> None:
    declared = {
        "roads.pa|th(start": ("program.dl", "path"),
        "ro|ads.path(start": ("program.dl", "roads"),
        "kno|wn(start)": ("library.dl", "known"),
        "(x: |N, y: N)\n  path(x, y)": ("program.dl", "N"),
        "|NEAR(a, b).": ("program.dl", "NEAR"),
        "far(a: Ci|ty": ("program.dl", "City"),
        "= Gra|ph<": ("program.dl", "Graph"),
    }
    hovered = {
        "roads.pa|th(start": ("path(x: N, y: N)", "`roads.path`: stratum 3, recursive; module linear, since"),
        "known(st|art)": ("start: City",),
        "kno|wn(start)": ("Whether somebody is known.", "no module"),
        "= Gra|ph<": (".comp Graph<N>",),
    }

    async def steps() -> None:
        async with editing(folder) as editor:
            editor.open("program.dl", PROGRAM)
            for marked, (name, word) in declared.items():
                document, position = editor.at("program.dl", marked)
                found = await editor.client.text_document_definition_async(lsp.DefinitionParams(document, position))
                assert isinstance(found, list), marked
                assert len(found) == 1, marked
                place = found[0]
                assert isinstance(place, lsp.Location)
                assert place.uri == editor.uri(name), marked
                line = (folder / name).read_text("utf-8").split("\n")[place.range.start.line]
                assert line[place.range.start.character : place.range.end.character] == word, marked
            for marked, parts in hovered.items():
                document, position = editor.at("program.dl", marked)
                shown = await editor.client.text_document_hover_async(lsp.HoverParams(document, position))
                assert shown is not None, marked
                assert isinstance(shown.contents, lsp.MarkupContent)
                assert [part for part in parts if part not in shown.contents.value] == [], shown.contents.value

    run(steps())


def test_names_are_changed_wherever_they_mean_the_same(folder: Path) -> None:
    async def renamed(editor: Editor, marked: str, new: str) -> dict[str, str]:
        document, position = editor.at("program.dl", marked)
        return editor.applied(
            await editor.client.text_document_rename_async(lsp.RenameParams(document, position, new))
            or lsp.WorkspaceEdit()
        )

    async def steps() -> None:
        async with editing(folder) as editor:
            editor.open("library.dl", LIBRARY)
            editor.open("program.dl", PROGRAM)
            texts = await renamed(editor, "roads.pa|th(start", "way")
            assert texts["program.dl"] == PROGRAM.replace("path", "way")
            texts = await renamed(editor, "kno|wn(start)", "famous")
            assert texts["library.dl"] == LIBRARY.replace("known(", "famous(")
            assert texts["program.dl"] == PROGRAM.replace("known(", "famous(")
            texts = await renamed(editor, "known(st|art)", "s")
            assert texts["program.dl"] == PROGRAM.replace("start", "s")
            refusals = {
                ("!li|nk(", "near"): "is written by a macro",
                ("known(st|art)", "end"): "already a variable `end`",
                ("roads.pa|th(start", "edge"): "`edge` is already declared at program.dl:5",
                ("far(st|art", "a b"): "`a b` is not a name",
                ("|:- roads", "x"): "no name here",
            }
            for (marked, new), reason in refusals.items():
                with pytest.raises(JsonRpcException, match=re.escape(reason)):
                    await renamed(editor, marked, new)
            editor.type("program.dl", ".output far", ".output far(")
            with pytest.raises(JsonRpcException, match="syntax errors"):
                await renamed(editor, "known(st|art)", "s")

    run(steps())


def test_completion_while_a_rule_is_typed(folder: Path) -> None:
    typed = {
        "far(p, q) :- roads.|": {"edge", "path"},
        "far(p, q) :- link(p, q), k|": {"p", "q", "known", "link", "far", "roads", "count", "strlen"},
        ".|": {"decl", "comp", "output"},
        ".decl more(x: C|": {"City", "number", "float"},
        ".decl more(x: City) eq|": {"eqrel", "choice-domain"},
        ".init more = |": {"Graph"},
    }

    async def steps() -> None:
        async with editing(folder) as editor:
            editor.open("program.dl", PROGRAM)
            last = ".output far\n"
            for marked, wanted in typed.items():
                editor.type("program.dl", last, f".output far\n{marked.replace('|', '')}")
                last = f".output far\n{marked.replace('|', '')}"
                document, position = editor.at("program.dl", f".output far\n{marked}")
                found = await editor.client.text_document_completion_async(lsp.CompletionParams(document, position))
                assert isinstance(found, lsp.CompletionList)
                labels = {item.label for item in found.items}
                assert wanted <= labels, (marked, labels)
                if marked.endswith("roads.|"):
                    assert labels == wanted

    run(steps())


def test_outline_and_form(folder: Path) -> None:
    async def steps() -> None:
        async with editing(folder) as editor:
            editor.open("program.dl", PROGRAM)
            document = lsp.TextDocumentIdentifier(editor.uri("program.dl"))
            found = await editor.client.text_document_document_symbol_async(lsp.DocumentSymbolParams(document))
            shape = {
                each.name: [inner.name for inner in each.children or ()]
                for each in found or ()
                if isinstance(each, lsp.DocumentSymbol)
            }
            assert shape == {"City": [], "Graph": ["edge", "path"], "roads": [], "link": [], "far": []}
            options = lsp.FormattingOptions(tab_size=2, insert_spaces=True)
            edits = await editor.client.text_document_formatting_async(lsp.DocumentFormattingParams(document, options))
            assert [edit.new_text for edit in edits or ()] == [formatted(PROGRAM)]
            editor.type("program.dl", ".output far", ".output far(")
            broken = await editor.client.text_document_formatting_async(lsp.DocumentFormattingParams(document, options))
            assert not broken

    run(steps())


def test_macros_and_folders_of_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "types.dl").write_text(".type T <: symbol\n", "utf-8")

    async def steps() -> None:
        async with editing(tmp_path, "-I", str(tmp_path / "more"), "-M", "LIMIT=3", "-w") as editor:
            unused = ".decl unused(x: T)\n"  # a warning, without -w
            editor.open("p.dl", f'#include "types.dl"\n{unused}.decl p(x: T, n: number)\np("a", LIMIT).\n.output p\n')
            assert await editor.checked("p.dl", lambda codes: not codes) == []

    run(steps())


def test_without_the_package_the_extra_is_named(tmp_path: Path) -> None:
    (tmp_path / "pygls.py").write_text('raise ModuleNotFoundError("No module named pygls", name="pygls")', "utf-8")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "sempre.cli", "lsp"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == (
        "error[E663]: `sempre lsp` needs the package `pygls`\nhint: Install it: pip install 'sempre[lsp]'.\n"
    )
