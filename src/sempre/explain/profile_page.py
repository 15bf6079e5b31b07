"""A profile: how epochs went, stratum by stratum, rule by rule, as a page that needs nothing else.

It shows what a report has. Rules and rounds are there where they were measured: see `sempre.plan.meter`. Without
scripts: folds are the browser's own, and drawings are part of the page.
"""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any, TypeAlias

from sempre.maintain.expected import Expected, shown_expected

Told: TypeAlias = Mapping[str, Any]

# How many epochs are shown stratum by stratum, and how many have a line: those that took longest.
MOST_SHOWN = 25
MOST_LISTED = 500
# A drawing of rounds has at most so many bars.
MOST_BARS = 240
OPENED = 2


def profile_page(title: str, epochs: Sequence[Told], session_seconds: float = 0.0) -> str:
    """The page of reports, as `Report.to_json` has them, with what was spent on reading and writing if that is known.

    `title` is the name of the program.
    """
    style = (files("sempre.explain") / "profile.css").read_text("utf-8")
    shown = [_Epoch(number, told) for number, told in enumerate(epochs)]
    slowest = sorted(shown, key=lambda epoch: -epoch.seconds)
    chosen = sorted(slowest[:MOST_SHOWN], key=lambda epoch: epoch.number)
    parts = [
        f"<header><h1>{_text(title)}</h1>{_summary(shown, session_seconds)}</header>",
        _epochs_table(sorted(slowest[:MOST_LISTED], key=lambda epoch: epoch.number), len(shown), {*chosen}),
        _strata_table(shown),
        _rules_table(shown),
        *(_epoch_section(epoch, epoch in slowest[:OPENED]) for epoch in chosen),
    ]
    return (
        "<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}: profile</title>\n<style>\n{style}</style></head>\n<body>\n<main>\n"
        + "\n".join(filter(None, parts))
        + "\n</main></body></html>\n"
    )


class _Epoch:
    """A report, and which epoch it is of: that of a store, or one after the other."""

    def __init__(self, number: int, told: Told) -> None:
        self.number = int(told.get("epoch", number))
        self.told = told
        self.seconds = float(told["seconds"])

    @property
    def strata(self) -> Sequence[Told]:
        return self.told["strata"]  # type: ignore[no-any-return]

    def total(self, what: str) -> float:
        return float(self.told.get(what, 0.0))


def _summary(epochs: Sequence[_Epoch], session_seconds: float) -> str:
    evaluating = sum(epoch.seconds for epoch in epochs)
    spent = [(_seconds(evaluating), "evaluating")]
    spent += [
        (_seconds(seconds), doing)
        for doing, seconds in (
            ("reading", sum(epoch.total("read_seconds") for epoch in epochs)),
            ("writing", sum(epoch.total("write_seconds") for epoch in epochs)),
            ("for Spark to start", session_seconds),
        )
        if seconds
    ]
    peak = max((int(epoch.told.get("peak_rss", 0)) for epoch in epochs), default=0)
    jobs = sum(int(epoch.told.get("jobs", 0)) for epoch in epochs)
    told = [(_number(len(epochs)), "epoch" if len(epochs) == 1 else "epochs"), *spent]
    told += [(_bytes(peak), "of memory at most")] if peak else []
    told += [(_number(jobs), "Spark job" if jobs == 1 else "Spark jobs")] if jobs else []
    return '<p class="figures">' + "".join(f"<span><b>{each}</b> {_text(what)}</span>" for each, what in told) + "</p>"


# ------------------------------------------------------------------------------------------------------- tables


def _epochs_table(epochs: Sequence[_Epoch], count: int, linked: set[_Epoch]) -> str:
    if count < 2:
        return ""
    longest = max(epoch.seconds for epoch in epochs)
    rows = []
    for epoch in epochs:
        told = epoch.told
        name = f'<a href="#epoch-{epoch.number}">{epoch.number}</a>' if epoch in linked else str(epoch.number)
        rows.append(
            [
                name,
                _timed(epoch.seconds, longest),
                _seconds(epoch.total("read_seconds")),
                _seconds(epoch.total("write_seconds")),
                _text(told["placement"]),
                _number(told["rounds"]),
                _number(told["instances"]),
                _signed(told["added"].values(), "+"),
                _signed(told["removed"].values(), "−"),
            ]
        )
    left = f"<p class=quiet>The {len(epochs)} slowest of {count:,}.</p>" if len(epochs) < count else ""
    heads = ("epoch", "seconds", "read", "write", "place", "rounds", "instances", "added", "removed")
    return f"<h2>Epochs</h2>{left}{_table(heads, rows, (1, 4))}"


def _strata_table(epochs: Sequence[_Epoch]) -> str:
    """Where the time went, whatever the epoch."""
    if len(epochs) < 2:
        return ""
    spent: dict[str, list[float]] = defaultdict(lambda: [0.0, 0, 0, 0])
    for epoch in epochs:
        for stratum in epoch.strata:
            sums = spent[", ".join(stratum["relations"])]
            for at, value in enumerate((stratum["seconds"], 1, stratum["added"], stratum["removed"])):
                sums[at] += value
    ordered = sorted(spent.items(), key=lambda item: -item[1][0])
    longest = max((sums[0] for sums in spent.values()), default=0.0)
    rows = [
        [f"<code>{_text(name)}</code>", _timed(sums[0], longest), *map(_number, sums[1:])]
        for name, sums in ordered[:MOST_SHOWN]
    ]
    return "<h2>Relations, in all epochs</h2>" + _table(("", "seconds", "epochs", "added", "removed"), rows, (0, 1))


def _rules_table(epochs: Sequence[_Epoch]) -> str:
    """The rules that took longest in all epochs."""
    spent: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0, 0])
    for epoch in epochs:
        for stratum in epoch.strata:
            for rule in (stratum.get("profile") or {}).get("rules", ()):
                sums = spent[rule["rule"], rule["line"]]
                for at, value in enumerate((rule["seconds"], rule["runs"], rule["instances"])):
                    sums[at] += value
    ordered = [(*rule, *sums) for rule, sums in sorted(spent.items(), key=lambda item: -item[1][0]) if sums[1]]
    if not ordered:
        return ""
    note = '<p class="quiet">What modules, searches along chains and Spark did belongs to no single rule.</p>'
    return f"<h2>Rules that took longest</h2>{note}{_rule_rows(ordered[:MOST_SHOWN])}"


def _rule_rows(rules: Sequence[tuple[Any, ...]]) -> str:
    longest = max((seconds for _, _, seconds, *_ in rules), default=0.0)
    rows = [
        [
            f'<code>{_text(text)}</code><span class="line">{_text(line)}</span>',
            _timed(seconds, longest),
            _number(runs),
            _number(instances),
        ]
        for text, line, seconds, runs, instances in rules
    ]
    return _table(("rule", "seconds", "runs", "instances"), rows, (0, 1))


# ------------------------------------------------------------------------------------------------------- epochs


def _epoch_section(epoch: _Epoch, is_open: bool) -> str:
    told = epoch.told
    added, removed = (sum(told[side].values()) for side in ("added", "removed"))
    facts = f"+{added:,} −{removed:,} facts"
    longest = max((stratum["seconds"] for stratum in epoch.strata), default=0.0)
    strata = "".join(_stratum(stratum, longest, epoch.seconds) for stratum in epoch.strata)
    ignored = [
        f"{told[key]:,} {what}"
        for key, what in (
            ("ignored_insertions", "insertions were there already"),
            ("ignored_deletions", "deletions were of facts that were not there"),
        )
        if told.get(key)
    ]
    notes = "".join(f'<p class="quiet">{_text(note)}</p>' for note in (told["why"], *ignored) if note)
    return (
        f'<section id="epoch-{epoch.number}"><details{" open" if is_open else ""}>'
        f"<summary><h2>Epoch {epoch.number}</h2> <b>{_seconds(epoch.seconds)}</b> "
        f'<span class="quiet">{facts} · {_text(told["strategy"])} · {_text(told["placement"])}</span></summary>'
        f"{notes}{strata}</details></section>"
    )


def _stratum(told: Told, longest: float, whole: float) -> str:
    facts = f"+{told['added']:,} −{told['removed']:,}"
    share = f"{told['seconds'] / whole:.0%}" if whole else ""
    rounds = f"{told['rounds']:,} round{'' if told['rounds'] == 1 else 's'}"
    modules = "".join(f'<span class="tag">{_text(module)}</span>' for module in told.get("modules", ()))
    profile = told.get("profile") or {}
    inside = _rounds_drawing(profile.get("found", ()))
    rules = [
        (r["rule"], r["line"], r["seconds"], r["runs"], r["instances"])
        for r in sorted(profile.get("rules", ()), key=lambda rule: -rule["seconds"])
    ]
    inside += _rule_rows(rules) if rules else ""
    why = f'<p class="quiet">{_text(told["why"])}</p>' if told["why"] else ""
    if told.get("expected"):
        why += f'<p class="quiet">expected: {_text(shown_expected(Expected(**each) for each in told["expected"]))}</p>'
    head = (
        f'<code class="name">{_text(", ".join(told["relations"]))}</code> {_timed(told["seconds"], longest)}'
        f'<span class="quiet">{share}</span> <span>{_text(told["strategy"])}</span> '
        f'<span class="quiet">{_text(told["placement"])} · {rounds} · {facts}</span>{modules}'
    )
    if not (inside or why):
        return f'<div class="stratum"><div class="head">{head}</div></div>'
    is_open = " open" if told["seconds"] == longest else ""
    return f'<details class="stratum"{is_open}><summary class="head">{head}</summary>{why}{inside}</details>'


def _rounds_drawing(found: Sequence[Sequence[float]]) -> str:
    """What every round found, as bars, with a line for the share of the time that had passed."""
    if len(found) < 3:
        return ""
    step = -(-len(found) // MOST_BARS)
    groups = [found[at : at + step] for at in range(0, len(found), step)]
    facts = [sum(each[0] for each in group) for group in groups]
    ends = [group[-1][1] for group in groups]
    most, last = max(facts) or 1, ends[-1] or 1
    width, height = 720, 90
    wide = width / len(groups)
    bars = "".join(
        f'<rect x="{at * wide:.1f}" y="{height - height * count / most:.1f}" width="{max(wide - 1, 0.6):.1f}" '
        f'height="{height * count / most:.1f}"><title>{_rounds_named(at, step, len(found))}: {count:,.0f} facts, '
        f"until {_seconds(end)}</title></rect>"
        for at, (count, end) in enumerate(zip(facts, ends, strict=True))
    )
    line = " ".join(f"{(at + 1) * wide:.1f},{height - height * end / last:.1f}" for at, end in enumerate(ends))
    told = f"{len(found):,} rounds; bars: facts found, {most:,.0f} at most; line: time passed, {_seconds(last)} in all"
    return (
        f'<figure><svg viewBox="0 0 {width} {height}" preserveAspectRatio="none" role="img" aria-label="{_text(told)}">'
        f'{bars}<polyline points="0,{height} {line}"/></svg>'
        f'<figcaption class="quiet">{_text(told)}</figcaption></figure>'
    )


def _rounds_named(at: int, step: int, count: int) -> str:
    first, last = at * step + 1, min((at + 1) * step, count)
    return f"round {first}" if first == last else f"rounds {first} to {last}"


# --------------------------------------------------------------------------------------------------------- parts


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], wide: Sequence[int]) -> str:
    """A table of cells that are HTML already; those in columns that are not `wide` are numbers."""

    def cells(tag: str, values: Sequence[str]) -> str:
        return "".join(f"<{tag}{'' if at in wide else ' class=n'}>{value}</{tag}>" for at, value in enumerate(values))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{cells("th", heads)}</tr></thead><tbody>{body}</tbody></table></div>'


def _timed(seconds: float, longest: float) -> str:
    share = 100 * seconds / longest if longest else 0
    return f'<span class="bar"><i style="width:{share:.1f}%"></i></span><span class="time">{_seconds(seconds)}</span>'


def _signed(numbers: Iterable[int], sign: str) -> str:
    total = sum(numbers)
    return f"{sign}{total:,}" if total else "0"


def _seconds(seconds: float) -> str:
    if not seconds:
        return "0 s"
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.2f} s" if seconds < 100 else f"{seconds:,.0f} s"


def _number(number: float) -> str:
    return f"{number:,.0f}"


def _bytes(number: int) -> str:
    return f"{number / 2**20:,.0f} MiB" if number < 2**30 else f"{number / 2**30:.1f} GiB"


def _text(text: object) -> str:
    return html.escape(str(text))
