"""One HTML file that needs nothing else, and files that are there whole or not at all."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from html import escape
from pathlib import Path

_STYLE = """
:root{color-scheme:light dark}
body{font:15px/1.45 sans-serif;max-width:1040px;margin:2em auto;padding:0 1em;color:#222;background:#fff}
table{border-collapse:collapse;width:100%;margin:1em 0}td,th{border-bottom:1px solid #8886;padding:.35em .6em;
text-align:left;vertical-align:top}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
.wide{overflow-x:auto}svg{width:100%;height:auto;min-width:640px}h2{margin-top:1.6em}.note{opacity:.75}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#16181c}}
"""


def page(title: str, parts: Iterable[str], style: str = "") -> str:
    """The page of these parts below its title; `style` is added to what every page has."""
    head = '<meta name="viewport" content="width=device-width">'
    head += f"<title>{escape(title)}</title><style>{_STYLE}{style}</style>"
    start = f'<!doctype html><html lang="en"><head><meta charset="utf-8">{head}</head><body><h1>{escape(title)}</h1>'
    # Plots stand in parts of many makers: each gets its frame here.
    body = re.sub("<svg.*?</svg>", lambda plot: wide(plot[0]), "".join(parts), flags=re.DOTALL)
    return "".join([start, body, "</body></html>\n"])


def table(titles: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """A table of text; the first `words` columns are words, the others numbers, set at the right."""
    kinds = ["" if number < words else ' class="n"' for number in range(len(titles))]
    head = "".join(f"<th{kind}>{escape(title)}</th>" for kind, title in zip(kinds, titles, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{escape(cell)}</td>" for kind, cell in zip(kinds, row, strict=True)) + "</tr>"
        for row in rows
    )
    return wide(f"<table><tr>{head}</tr>{body}</table>")


def wide(part: str) -> str:
    """A part that is moved sideways in itself where the window is narrow, and stays legible."""
    return f'<div class="wide">{part}</div>'


def write_files(folder: Path, files: Mapping[str, str]) -> tuple[Path, ...]:
    """Put files into a folder, which is made; each is there whole or not at all. Raises OSError."""
    with ExitStack() as stack:
        new = {folder / name: stack.enter_context(replaced(folder / name)) for name in files}
        for text, temporary in zip(files.values(), new.values(), strict=True):
            temporary.write_text(text, encoding="utf-8")
    return tuple(new)


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """A file to write beside `path`, in its folder, which is made; it takes that name at the end, or goes.

    Raises OSError, at once for what is no plain file: a device would be replaced by one.
    """
    if path.exists() and not path.is_file():
        number = errno.EISDIR if path.is_dir() else errno.EINVAL
        raise OSError(number, "it is a folder" if path.is_dir() else "it is no plain file", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        temporary.touch()
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
