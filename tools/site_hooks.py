"""What MkDocs does to pages of this repository: lists of pages in the contents are written out, and
links to files of the repository that are no pages become plain text."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Write out `Reference: "docs/reference/*.md"` of the contents."""
    paths = sorted(file.src_path for file in files if file.src_path.endswith(".md"))
    config["nav"] = [_written_out(entry, paths) for entry in config["nav"]]
    return files


def _written_out(entry: Any, paths: list[str]) -> Any:
    if not isinstance(entry, dict):
        return entry
    found: dict[str, Any] = {}
    for title, inside in entry.items():
        if isinstance(inside, list):
            found[title] = [_written_out(inner, paths) for inner in inside]
        elif "*" in inside:
            found[title] = [path for path in paths if fnmatch(path, inside)]
        else:
            found[title] = inside
    return found


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Leave links between pages; lead a link to a folder to its README; make others plain text."""
    source = Path(page.file.src_path)
    known = {file.src_path for file in files}

    def replaced(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        path = _normalized(source.parent / target)
        if path in known:
            return match[0]
        if f"{path}/README.md" in known:
            return f"[{text}]({target.rstrip('/')}/README.md{anchor})"
        return text if (ROOT / path).exists() else match[0]

    return LINK.sub(replaced, markdown)


def _normalized(path: Path) -> str:
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts = parts[:-1]
        elif part != ".":
            parts.append(part)
    return "/".join(parts)
