"""The page of an explanation in a browser: it opens, unfolds and folds, also on a phone and in the dark."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import sempre
from sempre.api.explanations import Proof, WhyNot

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs Debian's chromium: apt install chromium")

CHAIN = ".decl e(x: number, y: number) .decl p(x: number, y: number) p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z)."
# What a test does to the page is written behind it, and what is seen ends up in the title.
PROBE = """
<script>
window.addEventListener("error", (event) => { document.title = JSON.stringify({ error: event.message }); });
const count = () => document.querySelectorAll(".tree details[open]").length;
const seen = { first: count() };
document.querySelector("button.unfold").click();
seen.unfolded = count();
document.querySelector("button.fold").click();
seen.folded = count();
document.querySelector(".tree summary").click();
seen.theme = getComputedStyle(document.body).backgroundColor;
document.querySelector("button.theme").click();
seen.turned = getComputedStyle(document.body).backgroundColor;
seen.wide = document.documentElement.scrollWidth;
seen.base = document.querySelectorAll(".base li").length;
document.body.dataset.seen = JSON.stringify(seen);
</script>
"""


def opened(page: str, folder: Path, width: int = 1000) -> dict[str, object]:
    """What the probe sees in a headless browser."""
    file = folder / "page.html"
    file.write_text(page.replace("</body>", PROBE + "</body>"), "utf-8")
    assert BROWSER is not None
    command = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", f"--window-size={width},900", "--dump-dom"]
    profile = f"--user-data-dir={folder / 'profile'}"
    done = subprocess.run(
        [*command, profile, file.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
    )
    text = done.stdout.partition('data-seen="')[2].partition('"')[0].replace("&quot;", '"')
    assert text, done.stdout[:500] + done.stderr[-500:]
    found: dict[str, object] = json.loads(text)
    return found


def test_a_proof_unfolds_and_folds(tmp_path: Path) -> None:
    with sempre.Database(CHAIN) as db:
        db.apply(insert={"e": [(n, n + 1) for n in range(1000)]})
        proof = db.explain("p(0, 1000)")
        assert isinstance(proof, Proof)
        seen = opened(proof.to_html(), tmp_path, 400)
    assert seen["first"] == 1
    assert isinstance(seen["unfolded"], int)
    assert seen["unfolded"] > 100
    assert seen["folded"] == 0
    assert seen["theme"] != seen["turned"]
    assert seen["base"] == 1000
    assert isinstance(seen["wide"], int)
    assert seen["wide"] <= 500, "the page itself does not scroll sideways on a phone"


def test_what_is_missing_is_on_a_page(tmp_path: Path) -> None:
    with sempre.Database(CHAIN) as db:
        db.apply(insert={"e": [(1, 2), (3, 4)]})
        page = db.explain("p(1, 4)", absent=True, depth=2)
        assert isinstance(page, WhyNot)
        seen = opened(page.to_html(), tmp_path)
    assert seen["folded"] == 0
    assert isinstance(seen["unfolded"], int)
    assert seen["unfolded"] > 1
