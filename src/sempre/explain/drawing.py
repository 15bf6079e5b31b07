"""Explanations as graphs for Graphviz."""

from __future__ import annotations

from sempre.explain.absence_document import HOLDS, OPEN, AbsenceDocument
from sempre.explain.document import ABSENT, AGGREGATE, EXPLICIT, FACT, PATTERN, ProofDocument


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
            elif premise.kind not in (FACT, PATTERN):
                text = f"no {premise.text}" if premise.kind == ABSENT else premise.text
                lines.append(f"  n{at}_{number} [label={_quoted(text)}, shape=plaintext];")
                lines.append(f"  n{at} -> n{at}_{number} [style=dashed];")
            if premise.kind == AGGREGATE:
                lines += [f"  n{at}_{number} -> n{other};" for other in premise.nodes]
    return "\n".join([*lines, "}"])


def absence_dot(document: AbsenceDocument) -> str:
    """A graph: from absent facts to the literals of their nearest instances; what is missing is red."""
    lines = ["digraph absence {", '  rankdir=TB; node [fontname="sans-serif", fontsize=11];']
    for at, answer in enumerate(document.answers):
        lines.append(f"  a{at} [label={_quoted(answer.text)}, shape=ellipse, style=dashed];")
        for number, attempt in enumerate(answer.attempts):
            rule = document.rules[attempt.rule]
            lines.append(f"  a{at}_{number} [label={_quoted(rule.text)}, shape=plaintext];\n  a{at} -> a{at}_{number};")
            for place, literal in enumerate(attempt.literals):
                if literal.pattern:
                    continue
                color = "black" if literal.state == HOLDS else "gray" if literal.state == OPEN else "red"
                name = f"a{at}_{number}_{place}"
                lines.append(f"  {name} [label={_quoted(literal.text)}, shape=box, color={color}];")
                lines.append(f"  a{at}_{number} -> {name};")
                lines += [f"  {name} -> a{literal.answer};"] if literal.answer >= 0 else []
    return "\n".join([*lines, "}"])


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
