"""The language server protocol, on pygls: requests in, answers out. What the answers are is decided elsewhere.

Places are counted from 1 and in characters everywhere else; here they become what the editor counts in.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from lsprotocol import types as lsp
from pygls import uris
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.workspace import PositionCodec

from sempre.diagnostics import Diagnostic, ProgramError, Span
from sempre.lang.formatter import formatted
from sempre.lang.preprocessor import Preprocessing
from sempre.lsp.answers import Declared, Place, Refused, definitions, name_at, outline, references, renamed
from sempre.lsp.completing import completions
from sempre.lsp.hovering import hover
from sempre.lsp.programs import Programs

# How long nothing is typed before a program is checked.
PAUSE_SECONDS = 0.2

R = TypeVar("R")

_SEVERITY = {"error": lsp.DiagnosticSeverity.Error, "warning": lsp.DiagnosticSeverity.Warning}
_SYMBOL = {
    "relation": lsp.SymbolKind.Function,
    "type": lsp.SymbolKind.Struct,
    "functor": lsp.SymbolKind.Operator,
    "component": lsp.SymbolKind.Class,
    "instance": lsp.SymbolKind.Object,
}
_PROPOSED = {
    "relation": lsp.CompletionItemKind.Function,
    "type": lsp.CompletionItemKind.Struct,
    "parameter": lsp.CompletionItemKind.TypeParameter,
    "branch": lsp.CompletionItemKind.EnumMember,
    "functor": lsp.CompletionItemKind.Operator,
    "component": lsp.CompletionItemKind.Class,
    "instance": lsp.CompletionItemKind.Module,
    "variable": lsp.CompletionItemKind.Variable,
    "built-in": lsp.CompletionItemKind.Operator,
    "directive": lsp.CompletionItemKind.Keyword,
    "word": lsp.CompletionItemKind.Keyword,
}


class ProgramServer(LanguageServer):
    """A language server and the programs that its editor works on."""

    def __init__(self, version: str, programs: Programs) -> None:
        super().__init__("sempre", version)
        self.programs = programs
        self._waiting: asyncio.Task[None] | None = None
        self._touched: set[str] = set()

    # ------------------------------------------------------------------------------------------- checking

    def touch(self, file: str) -> None:
        """Check what a file is part of, once nobody types."""
        self._touched.add(file)
        if self._waiting is not None:
            self._waiting.cancel()
        self._waiting = asyncio.get_running_loop().create_task(self._check_soon())

    async def _check_soon(self) -> None:
        await asyncio.sleep(PAUSE_SECONDS)
        self.check()

    def check(self) -> None:
        """Tell the editor what is wrong in the files that were touched, and in those that belong to them."""
        touched, self._touched = self._touched, set()
        for file, found in self.programs.findings(sorted(touched)):
            shown = [self.shown(each, file) for each in found]
            self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri_of(file), shown))

    def shown(self, finding: Diagnostic, file: str) -> lsp.Diagnostic:
        """A finding as the protocol has it, with its detail and hint."""
        inner = f" (in {finding.span.within})" if finding.span.within else ""
        lines = [finding.message + inner, finding.detail, finding.hint]
        return lsp.Diagnostic(
            self.range(finding.span if finding.span.line else Span(file, 1, 1, 1, 1)),
            "\n".join(line for line in lines if line),
            _SEVERITY[finding.severity],
            finding.code,
            source="sempre",
            related_information=[
                lsp.DiagnosticRelatedInformation(self.location(span), text)
                for span, text in finding.notes
                if span.line and Path(span.file).is_absolute()
            ],
        )

    # --------------------------------------------------------------------------------------------- places

    def range(self, span: Span) -> lsp.Range:
        lines = self.programs.text(span.file).split("\n")

        def position(line: int, column: int) -> lsp.Position:
            text = lines[line - 1] if line <= len(lines) else ""
            return lsp.Position(line - 1, self._codec.client_num_units(text[: column - 1]))

        return lsp.Range(position(span.line, span.column), position(span.end_line, span.end_column))

    def location(self, span: Span) -> lsp.Location:
        return lsp.Location(uri_of(span.file), self.range(span))

    def place(self, document: lsp.TextDocumentIdentifier, position: lsp.Position) -> Place:
        file = file_of(document.uri)
        lines = self.programs.text(file).split("\n")
        line = lines[position.line] if position.line < len(lines) else ""
        units = count = 0
        while count < len(line) and units < position.character:
            units += self._codec.client_num_units(line[count])
            count += 1
        return Place(file, position.line + 1, count + 1)

    @property
    def _codec(self) -> PositionCodec:
        return self.workspace.position_codec


def file_of(uri: str) -> str:
    """The path of a document; what is no file keeps its URI as a name."""
    path = uris.to_fs_path(uri) if uri.startswith("file:") else None
    return os.path.normpath(path) if path else uri


def uri_of(file: str) -> str:
    """The URI of a document."""
    return (uris.from_fs_path(file) or file) if Path(file).is_absolute() else file


def serve(version: str, settings: Preprocessing, *, legacy: bool, warnings: bool) -> None:
    """Answer an editor on standard input and output, until it has had enough."""
    make_server(version, Programs(settings, legacy=legacy, warnings=warnings)).start_io()


def make_server(version: str, programs: Programs) -> ProgramServer:
    """A server that knows what to do with every request."""
    server = ProgramServer(version, programs)
    _follow_texts(server)
    _answer_questions(server)
    _answer_edits(server)
    return server


def _follow_texts(server: ProgramServer) -> None:
    """What opens, changes and closes."""

    @server.feature(lsp.INITIALIZED)
    def initialized(_: lsp.InitializedParams) -> None:
        folders = [uris.to_fs_path(uri) for uri in server.workspace.folders]
        root = server.workspace.root_path
        server.programs.folders = [Path(path) for path in folders or [root] if path]

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        changed(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def typed(params: lsp.DidChangeTextDocumentParams) -> None:
        changed(params.text_document.uri)

    def changed(uri: str) -> None:
        file = file_of(uri)
        server.programs.put(file, server.workspace.get_text_document(uri).source.replace("\r\n", "\n"))
        server.touch(file)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    def saved(params: lsp.DidSaveTextDocumentParams) -> None:
        server.programs.refresh()
        server.touch(file_of(params.text_document.uri))

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def watched(_: lsp.DidChangeWatchedFilesParams) -> None:
        server.programs.refresh()
        for file in server.programs.open:
            server.touch(file)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        server.programs.close(file_of(params.text_document.uri))
        empty = lsp.PublishDiagnosticsParams(params.text_document.uri, [])
        server.text_document_publish_diagnostics(empty)


def _answer_questions(server: ProgramServer) -> None:
    """What changes nothing."""

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def definition(params: lsp.DefinitionParams) -> list[lsp.Location]:
        place = server.place(params.text_document, params.position)
        return [server.location(span) for span in definitions(server.programs, place)]

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    def used(params: lsp.ReferenceParams) -> list[lsp.Location]:
        place = server.place(params.text_document, params.position)
        found = references(server.programs, place, declaration=params.context.include_declaration)
        return [server.location(span) for span in found]

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hovered(params: lsp.HoverParams) -> lsp.Hover | None:
        found = hover(server.programs, server.place(params.text_document, params.position))
        if found is None:
            return None
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, found[0]), server.range(found[1]))

    triggers = lsp.CompletionOptions(trigger_characters=[".", "$", "@"])

    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION, triggers)
    def completed(params: lsp.CompletionParams) -> lsp.CompletionList:
        place = server.place(params.text_document, params.position)
        items = [
            lsp.CompletionItem(each.label, kind=_PROPOSED[each.space], detail=each.detail or None, sort_text=f"{at:05}")
            for at, each in enumerate(completions(server.programs, place))
        ]
        return lsp.CompletionList(is_incomplete=False, items=items)

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def symbols(params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        return _tree(server, outline(server.programs, file_of(params.text_document.uri)))


def _tree(server: ProgramServer, entries: Iterable[Declared]) -> list[lsp.DocumentSymbol]:
    """The outline of a file: what components declare is below them."""
    roots: list[lsp.DocumentSymbol] = []
    components: dict[tuple[str, ...], list[lsp.DocumentSymbol]] = {(): roots}
    for entry in entries:
        name = entry.name
        made = lsp.DocumentSymbol(
            name.text,
            _SYMBOL[name.space],
            server.range(entry.span),
            server.range(name.span),
            entry.detail.split("\n")[0],
            children=[],
        )
        components.get(name.scope, roots).append(made)
        if name.space == "component":
            components[(*name.scope, name.text)] = made.children = []
    return roots


def _answer_edits(server: ProgramServer) -> None:
    """What the editor is to change."""

    @server.feature(lsp.TEXT_DOCUMENT_PREPARE_RENAME)
    def prepared(params: lsp.PrepareRenameParams) -> lsp.Range:
        place = server.place(params.text_document, params.position)
        return server.range(_allowed(lambda: name_at(server.programs, place)).span)

    @server.feature(lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(prepare_provider=True))
    def rename(params: lsp.RenameParams) -> lsp.WorkspaceEdit:
        place = server.place(params.text_document, params.position)
        changes: dict[str, list[lsp.TextEdit]] = {}
        for span in _allowed(lambda: renamed(server.programs, place, params.new_name)):
            changes.setdefault(uri_of(span.file), []).append(lsp.TextEdit(server.range(span), params.new_name))
        return lsp.WorkspaceEdit(changes)

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def format_document(params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
        file = file_of(params.text_document.uri)
        text = server.programs.text(file)
        try:
            new = formatted(text, file)
        except ProgramError:
            return []  # the editor shows what is wrong
        last = text.count("\n") + 1
        whole = Span(file, 1, 1, last, len(text.rpartition("\n")[2]) + 1)
        return [] if new == text else [lsp.TextEdit(server.range(whole), new)]


def _allowed(answer: Callable[[], R]) -> R:
    """The answer, or why there is none, in the words of the protocol."""
    try:
        return answer()
    except Refused as refusal:
        raise JsonRpcException(str(refusal), lsp.LSPErrorCodes.RequestFailed) from None
