"""A run as a picture: messages over time, and the topology with its best paths. HTML with SVG; PNG needs matplotlib."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sempre.data import dataclass
from sempre.diagnostics import DataError, Diagnostic
from sempre.network.node import Address
from sempre.network.report import BurstReport

WIDTH, HEIGHT, MARGIN = 900, 260, 40
BARS = 300
COLORS = ("#3465a4", "#cc0000", "#4e9a06", "#75507b", "#c17d11", "#06989a")
Edge = tuple[Address, Address]


@dataclass(frozen=True, slots=True)
class Picture:
    """What is drawn: a bar per stretch of time, colored by burst, and edges; the marked ones lie on best paths."""

    title: str
    bars: tuple[tuple[int, int], ...]  # (burst, messages)
    edges: tuple[Edge, ...]
    marked: frozenset[Edge]


def picture(title: str, reports: Sequence[BurstReport], edges: Iterable[Edge], marked: Iterable[Edge]) -> Picture:
    """The picture of a run; `edges` are links between nodes, `marked` those that best paths use."""
    bars = [(report.number, report.timeline[step]) for report in reports for step in range(1, report.steps + 1)]
    return Picture(title, tuple(_squeezed(bars)), tuple(dict.fromkeys(edges)), frozenset(marked))


def _squeezed(bars: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """At most about `BARS` bars: neighbors of one burst are added up."""
    stretch = math.ceil(len(bars) / BARS)
    if stretch <= 1:
        return bars
    found: list[tuple[int, int]] = []
    for at in range(0, len(bars), stretch):
        part = bars[at : at + stretch]
        bursts = dict.fromkeys(number for number, _ in part)
        found += [(burst, sum(count for number, count in part if number == burst)) for burst in bursts]
    return found


def write_plot(path: Path, drawn: Picture) -> None:
    """Write the picture in the format that the name of the file says."""
    try:
        if path.suffix == ".png":
            _write_png(path, drawn)
        else:
            path.write_text(to_html(drawn), "utf-8")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DataError(Diagnostic("E534", f"cannot write `{path}`: {reason}")) from None


# ---------------------------------------------------------------------------------------------------- HTML


def to_html(drawn: Picture) -> str:
    """One page that needs nothing else."""
    title = html.escape(drawn.title)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        "<style>body{font:14px sans-serif;margin:2em;max-width:60em}svg{width:100%;height:auto}</style></head>\n"
        f"<body><h1>{title}</h1>\n<h2>Messages over time</h2>\n{_bars_svg(drawn)}\n"
        f"<h2>Topology</h2>\n<p>Links on best paths are drawn in color.</p>\n{_graph_svg(drawn)}\n</body></html>\n"
    )


def _bars_svg(drawn: Picture) -> str:
    most = max((count for _, count in drawn.bars), default=0) or 1
    wide = (WIDTH - 2 * MARGIN) / max(1, len(drawn.bars))
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="messages over time">']
    for at, (burst, count) in enumerate(drawn.bars):
        tall = (HEIGHT - 2 * MARGIN) * count / most
        x, y = MARGIN + at * wide, HEIGHT - MARGIN - tall
        color = COLORS[burst % len(COLORS)]
        parts.append(
            f'<rect x="{x:.2f}" y="{y:.2f}" width="{wide:.2f}" height="{tall:.2f}" fill="{color}">'
            f"<title>burst {burst}: {count:,} messages</title></rect>"
        )
    parts.append(f'<text x="{MARGIN}" y="{MARGIN - 10}">at most {most:,} messages</text>')
    bursts = list(dict.fromkeys(burst for burst, _ in drawn.bars))[:8]
    for at, burst in enumerate(bursts):
        color = COLORS[burst % len(COLORS)]
        parts.append(f'<text x="{MARGIN + 110 * at}" y="{HEIGHT - 10}" fill="{color}">burst {burst}</text>')
    return "".join([*parts, "</svg>"])


def _graph_svg(drawn: Picture) -> str:
    places = layout(drawn.edges)
    tall = 600
    parts = [f'<svg viewBox="0 0 {WIDTH} {tall}" role="img" aria-label="topology">']
    spots = {
        node: (MARGIN + x * (WIDTH - 2 * MARGIN), MARGIN + y * (tall - 2 * MARGIN)) for node, (x, y) in places.items()
    }
    for edge in drawn.edges:
        (x1, y1), (x2, y2) = spots[edge[0]], spots[edge[1]]
        look = 'stroke="#cc0000" stroke-width="1.6"' if edge in drawn.marked else 'stroke="#bbb" stroke-width="0.8"'
        parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {look}/>')
    size = 4 if len(spots) < 200 else 2
    for node, (x, y) in spots.items():
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}"><title>{html.escape(str(node))}</title></circle>')
        if len(spots) <= 60:
            parts.append(f'<text x="{x + 5:.1f}" y="{y - 5:.1f}" font-size="11">{html.escape(str(node))}</text>')
    return "".join([*parts, "</svg>"])


# -------------------------------------------------------------------------------------------------- layout


def layout(edges: Iterable[Edge], rounds: int = 60) -> dict[Address, tuple[float, float]]:
    """Places in the unit square: the classical spring model, from a circle, so that it is the same every time."""
    import numpy as np

    pairs = [(a, b) for a, b in edges if a != b]
    nodes = list(dict.fromkeys(node for edge in edges for node in edge))
    number = {node: at for at, node in enumerate(nodes)}
    if not nodes:
        return {}
    turn = np.arange(len(nodes)) * 2 * np.pi / len(nodes)
    at = np.column_stack([np.cos(turn), np.sin(turn)])
    one = np.array([number[a] for a, _ in pairs], int)
    two = np.array([number[b] for _, b in pairs], int)
    ideal = 2 / math.sqrt(len(nodes))
    for step in range(rounds):
        apart = at[:, None, :] - at[None, :, :]
        distance = np.maximum(np.sqrt((apart**2).sum(axis=2)), 1e-3)
        push = (apart * (ideal**2 / distance**2)[:, :, None]).sum(axis=1)
        along = at[one] - at[two]
        pull = along * (np.sqrt((along**2).sum(axis=1)) / ideal)[:, None]
        np.add.at(push, one, -pull)
        np.add.at(push, two, pull)
        length = np.maximum(np.sqrt((push**2).sum(axis=1)), 1e-9)[:, None]
        at = at + push / length * np.minimum(length, 0.2 * (1 - step / rounds))
    low, span = at.min(axis=0), np.maximum(np.ptp(at, axis=0), 1e-9)
    scaled = (at - low) / span
    return {node: (float(x), float(y)) for node, (x, y) in zip(nodes, scaled, strict=True)}


# ----------------------------------------------------------------------------------------------------- PNG


def _write_png(path: Path, drawn: Picture) -> None:
    try:
        import matplotlib as mpl
    except ImportError:
        hint = f"Use `{path.with_suffix('.html')}`, which needs nothing, or install matplotlib."
        raise DataError(Diagnostic("E534", "a PNG needs matplotlib, which is not installed", hint=hint)) from None
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (above, below) = plt.subplots(2, 1, figsize=(9, 10), height_ratios=(1, 2))
    colors = [COLORS[burst % len(COLORS)] for burst, _ in drawn.bars]
    above.bar(range(len(drawn.bars)), [count for _, count in drawn.bars], color=colors, width=1.0)
    above.set(title=drawn.title, ylabel="messages")
    _draw_graph(below, drawn)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _draw_graph(axes: Any, drawn: Picture) -> None:
    places = layout(drawn.edges)
    for edge in drawn.edges:
        (x1, y1), (x2, y2) = places[edge[0]], places[edge[1]]
        axes.plot((x1, x2), (y1, y2), color="#cc0000" if edge in drawn.marked else "#bbbbbb", linewidth=0.8, zorder=1)
    axes.scatter([x for x, _ in places.values()], [1 * y for _, y in places.values()], s=8, color="black", zorder=2)
    axes.set_axis_off()
