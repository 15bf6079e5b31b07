"""Explanations as a tree of lines, for terminals."""

from __future__ import annotations

from collections.abc import Iterator

from sempre.explain.document import ABSENT, AGGREGATE, EXPLICIT, FACT, PATTERN, ProofDocument, ToldFact

SHOWN_BASE = 20


def proof_tree(document: ProofDocument) -> str:
    """The short answer, then the tree; what is told already is referred to."""
    lines = _short(document)
    if document.nodes[document.root].kind == EXPLICIT and not document.others:
        return "\n".join(lines)
    lines.append("")
    told: dict[int, int] = {}
    lines += _lines(document, document.root, "", "", told)
    if document.others:
        more = document.instances - 1 - len(document.others)
        lines += ["", f"{document.instances:,} instances in all; {len(document.others):,} further:"]
        for at in document.others:
            lines += _lines(document, at, "", "", told)
        lines += [f"and {more:,} more"] if more > 0 else []
    return "\n".join(lines)


def _short(document: ProofDocument) -> list[str]:
    root = document.nodes[document.root]
    if root.kind == EXPLICIT:
        return [f"{root.text} is an explicit fact"]
    said = [root.sentence] if root.sentence else []
    count = len(document.base)
    facts = [f"  {document.nodes[at].text}" for at in document.base[:SHOWN_BASE]]
    facts += [f"  and {count - SHOWN_BASE:,} more"] if count > SHOWN_BASE else []
    title = f"{root.text} holds because of {count:,} fact{'' if count == 1 else 's'}:"
    return [*said, title if count else f"{root.text} holds without any facts", *facts]


def _lines(document: ProofDocument, root: int, first: str, rest: str, told: dict[int, int]) -> Iterator[str]:
    """The lines of a node and of all below, without recursion: proofs can be thousands of levels deep."""
    stack: list[tuple[int, str, str, str, tuple[int, ...]]] = [(root, first, rest, "", ())]
    while stack:
        at, first, rest, text, inner = stack.pop()
        if at < 0:
            yield first + text
            _push(stack, rest, [(child, "", ()) for child in inner])
            continue
        node = document.nodes[at]
        if node.kind == EXPLICIT:
            yield first + node.text
            continue
        if at in told:
            yield f"{first}{node.text}  (above)"
            continue
        told[at] = at
        yield first + node.text + _how(document, node)
        _push(stack, rest, _below(node))


def _push(
    stack: list[tuple[int, str, str, str, tuple[int, ...]]], rest: str, below: list[tuple[int, str, tuple[int, ...]]]
) -> None:
    for number, (child, text, inner) in enumerate(reversed(below)):
        last = number == 0
        stack.append((child, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "), text, inner))


def _how(document: ProofDocument, node: ToldFact) -> str:
    rule = document.rules[node.rule]
    total = f"  one of {node.size:,} instances" if node.size > 1 else ""
    return (
        f"  by {rule.place}: {rule.text}{total}" if not node.sentence else f"  {node.sentence}  ({rule.place}){total}"
    )


def _below(node: ToldFact) -> list[tuple[int, str, tuple[int, ...]]]:
    """What stands below a node: numbers of nodes, or text (-1) with the nodes that are below it."""
    found: list[tuple[int, str, tuple[int, ...]]] = []
    for premise in node.premises:
        if premise.kind == FACT:
            found.append((premise.node, f"{premise.text}  (deeper)", ()))
        elif premise.kind == AGGREGATE:
            text = f"{premise.text}, of {premise.size:,} row{'' if premise.size == 1 else 's'}"
            found.append((-1, text, premise.nodes))
        elif premise.kind != PATTERN:
            found.append((-1, premise.text if premise.kind != ABSENT else f"no {premise.text}", ()))
    return found
