"""Explanations as graphs for Graphviz."""

from __future__ import annotations

from sempre.explain.document import ABSENT, AGGREGATE, EXPLICIT, FACT, ProofDocument


def proof_dot(document: ProofDocument) -> str:
    """A graph: explicit facts are boxes, derived ones ellipses, and arrows go from a fact to what it rests on."""
    lines = ["digraph proof {", '  rankdir=TB; node [fontname="sans-serif", fontsize=11];']
    for at, node in enumerate(document.nodes):
        shape = "box, style=filled, fillcolor=lightgray" if node.kind == EXPLICIT else "ellipse"
        tip = "" if node.rule < 0 else f", tooltip={_quoted(document.rules[node.rule].text)}"
        lines.append(f"  n{at} [label={_quoted(node.text)}, shape={shape}{tip}];")
        for number, premise in enumerate(node.premises):
            if premise.kind == FACT and premise.node >= 0:
                lines.append(f"  n{at} -> n{premise.node};")
            elif premise.kind != FACT:
                text = f"no {premise.text}" if premise.kind == ABSENT else premise.text
                lines.append(f"  n{at}_{number} [label={_quoted(text)}, shape=plaintext];")
                lines.append(f"  n{at} -> n{at}_{number} [style=dashed];")
            if premise.kind == AGGREGATE:
                lines += [f"  n{at}_{number} -> n{other};" for other in premise.nodes]
    return "\n".join([*lines, "}"])


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
