"""Facts for the examples from a topology of the Internet Topology Zoo: `python make_facts.py links.tsv NAME FOLDER`.

`links.tsv` has a line `topology, a, b` for every undirected link, tab-separated. Costs are 1 to 10, by the names of the
ends; identifiers on the ring are a permutation of 0 to 1023.
"""

from __future__ import annotations

import sys
from pathlib import Path


def topology(table: Path, name: str) -> list[tuple[str, str]]:
    """The undirected links of one topology."""
    rows = (line.split("\t") for line in table.read_text("utf-8").splitlines())
    return [(a, b) for topology, a, b in rows if topology == name and a != b]


def cost(a: str, b: str) -> int:
    return sum(map(ord, a + b)) % 10 + 1


def facts(links: list[tuple[str, str]]) -> dict[str, list[tuple[object, ...]]]:
    """The rows of `link`, `identifier` and `destination`."""
    both = [pair for a, b in links for pair in ((a, b), (b, a))]
    nodes = sorted({node for pair in links for node in pair})
    return {
        "link": sorted({(a, b, cost(*sorted((a, b)))) for a, b in both}),
        "plain": sorted(set(both)),
        "identifier": [(node, (number * 389 + 71) % 1024) for number, node in enumerate(nodes)],
        "destination": [(node,) for node in nodes[:20]],
    }


def main(table: str, name: str, folder: str) -> None:
    """Write `link.facts` and the others into `folder`, and links without costs into `folder/plain`."""
    found = facts(topology(Path(table), name))
    if not found["link"]:
        raise SystemExit(f"no topology `{name}` in {table}")
    plain = Path(folder) / "plain"
    plain.mkdir(parents=True, exist_ok=True)
    for relation, rows in found.items():
        text = "".join("\t".join(map(str, row)) + "\n" for row in rows)
        path = plain / "link.facts" if relation == "plain" else Path(folder) / f"{relation}.facts"
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
