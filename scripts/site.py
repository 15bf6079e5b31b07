"""Hooks of MkDocs: the README is the front page, and links out of `docs/` lead to text that says where the file is.

The pages are written to be read in the repository, too, so that their links are those of the repository.
"""

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>[^)#:]+)(?P<anchor>#[^)]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Adds the README, as if it lay in `docs/`."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, "index.md", content=_front_page()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Takes the links off that lead out of the documents: these files are in the repository and not on the site."""
    folder = (ROOT / "docs" / page.file.src_uri).parent

    def link(found: re.Match[str]) -> str:
        target = (folder / found["target"]).resolve()
        inside = target.is_relative_to(ROOT / "docs") or page.file.src_uri == "index.md"
        return found[0] if inside else found["text"]

    return _LINK.sub(link, markdown)


def _front_page() -> str:
    def link(found: re.Match[str]) -> str:
        target = found["target"]
        if target.startswith("docs/") and target.endswith(".md"):
            return f"[{found['text']}]({target.removeprefix('docs/')}{found['anchor'] or ''})"
        return found["text"]

    return _LINK.sub(link, (ROOT / "README.md").read_text(encoding="utf-8"))
