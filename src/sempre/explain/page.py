"""Explanations as a page: one file that needs nothing else, light and dark, with folds, for a phone as well.

The page holds the document as JSON and draws a fold when it is opened, so that a proof with a thousand levels opens at
once. Without scripts it shows the tree as text.
"""

from __future__ import annotations

import html
import json
from importlib.resources import files
from typing import Any


def document_page(document: dict[str, Any], text: str) -> str:
    """The page of a document; `text` is what it shows where scripts do not run."""
    place = files("sempre.explain")
    style, script = ((place / name).read_text("utf-8") for name in ("page.css", "page.js"))
    title = html.escape(str(document["fact"]))
    data = json.dumps(document, ensure_ascii=False).replace("<", "\\u003c")
    return (
        "<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{style}</style></head>\n<body>\n"
        '<main id="page"></main>\n'
        f"<noscript><pre>{html.escape(text)}</pre></noscript>\n"
        f'<script type="application/json" id="document">{data}</script>\n'
        f"<script>\n{script}</script>\n</body></html>\n"
    )
