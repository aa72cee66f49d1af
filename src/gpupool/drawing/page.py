"""Build one HTML file that needs nothing else, and write files completely or not at all."""

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


def build_page(title: str, parts: Iterable[str], style: str = "") -> str:
    """Build a page of these parts below its title; `style` is added to the style of every page."""
    head = '<meta name="viewport" content="width=device-width">'
    head += f"<title>{escape(title)}</title><style>{_STYLE}{style}</style>"
    start = f'<!doctype html><html lang="en"><head><meta charset="utf-8">{head}</head><body><h1>{escape(title)}</h1>'
    # Plots stand in parts of many callers: each gets its frame here, so that none forgets it.
    body = re.sub("<svg.*?</svg>", lambda plot: wrap_wide(plot[0]), "".join(parts), flags=re.DOTALL)
    return "".join([start, body, "</body></html>\n"])


def render_table(titles: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """Render a table of text.

    The first `words` columns are words, the others numbers, set at the right.
    """
    kinds = ["" if number < words else ' class="n"' for number in range(len(titles))]
    parts = [_render_row("th", kinds, titles)]
    for row in rows:
        parts.append(_render_row("td", kinds, row))
    return wrap_wide(f"<table>{''.join(parts)}</table>")


def _render_row(tag: str, kinds: Sequence[str], cells: Sequence[str]) -> str:
    parts: list[str] = []
    for kind, cell in zip(kinds, cells, strict=True):
        parts.append(f"<{tag}{kind}>{escape(cell)}</{tag}>")
    return f"<tr>{''.join(parts)}</tr>"


def wrap_wide(part: str) -> str:
    """Wrap a part so that it scrolls sideways in a narrow window and stays legible."""
    return f'<div class="wide">{part}</div>'


def write_files(folder: Path, files: Mapping[str, str]) -> tuple[Path, ...]:
    """Write files into a folder, which is created; each appears completely or not at all.

    Raises:
        OSError: none of the files is replaced then.
    """
    # All are written before the first is renamed: a full disk leaves the old set.
    with ExitStack() as stack:
        new = {folder / name: stack.enter_context(replace_file(folder / name)) for name in files}
        for text, temporary in zip(files.values(), new.values(), strict=True):
            temporary.write_text(text, encoding="utf-8")
    return tuple(new)


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Open a temporary file beside `path`; it takes that name if the block ends without error.

    The folder is created. After an error, the temporary file is removed and `path` is as before.

    Raises:
        OSError: at once for a path that is no plain file: a device would be replaced by a file.
    """
    if path.exists() and not path.is_file():
        number = errno.EISDIR if path.is_dir() else errno.EINVAL
        raise OSError(
            number, "it is a folder" if path.is_dir() else "it is no plain file", str(path)
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder, since a rename is atomic only within a file system; with the process id,
    # since two simulations may write to one folder.
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        temporary.touch()
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
