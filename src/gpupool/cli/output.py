"""The one place that puts lists, objects and errors on the terminal: table, wide, json, yaml, csv.

Unknown is `--`, never 0. What came from people (names, commands) loses its control characters.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gpupool.base.errors import GpupoolError

Row = Mapping[str, Any]
UNKNOWN = "--"
_COLORS = {"red": "31", "green": "32", "yellow": "33", "grey": "90", "bold": "1"}


class Column:
    """One column: its title, the text of a row, where it is shown and how it is set."""

    def __init__(
        self,
        title: str,
        text: Callable[[Row], object],
        *,
        wide: bool = False,
        right: bool = False,
        color: Callable[[Row], str | None] | None = None,
        spare: int = 0,
    ) -> None:
        """`spare`: on a terminal that is too narrow the column is left out, the highest number first; 0 never is."""
        self.title, self.text, self.wide, self.right, self.color = title, text, wide, right, color
        self.spare = spare


def print_list(
    rows: Sequence[Row],
    columns: Sequence[Column],
    output: str,
    *,
    fields: Callable[[], Sequence[str]] = tuple,
    empty: str = "",
    color: bool = False,
) -> None:
    """Rows in the wanted format. `fields` names the CSV columns when there are no rows to tell them."""
    if output in ("json", "yaml"):
        print_data(list(rows), output)
    elif output == "csv":
        write_csv(rows, list(rows[0]) if rows else list(fields()))
    elif not rows and empty:
        sys.stdout.write(empty + "\n")
    else:
        shown = [column for column in columns if output == "wide" or not column.wide]
        limit = _limit(output)
        if limit is not None and any(column.spare for column in shown):
            shown, limit = fitting(rows, shown, limit), None
        sys.stdout.write(table(rows, shown, color=color, limit=limit) + "\n")


def fitting(rows: Sequence[Row], columns: Sequence[Column], limit: int) -> list[Column]:
    """The columns without those that can be spared, until the widest line fits; the last one is shown whole."""
    shown = list(columns)
    widths = {id(c): max(width(c.title), *(width(clean(c.text(row))) for row in rows), 0) for c in columns}
    while sum(widths[id(one)] + 2 for one in shown) - 2 > limit:
        spare = max(shown, key=lambda one: one.spare)
        if not spare.spare:
            break
        shown.remove(spare)
    return shown


def print_data(value: Any, output: str) -> None:
    """JSON or YAML of anything."""
    if output == "yaml":
        import yaml

        yaml.safe_dump(value, sys.stdout, sort_keys=False, allow_unicode=True, default_flow_style=False)
        return
    import json

    json.dump(value, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def write_csv(rows: Iterable[Row], fields: Sequence[str]) -> None:
    """One line per row; lists and objects as JSON in their cell."""
    import csv
    import json

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(fields)
    for row in rows:
        cells = (row.get(name) for name in fields)
        writer.writerow([json.dumps(cell) if isinstance(cell, (dict, list)) else _plain(cell) for cell in cells])


def _plain(cell: Any) -> object:
    return "" if cell is None else str(cell).lower() if isinstance(cell, bool) else cell


def table(rows: Sequence[Row], columns: Sequence[Column], *, color: bool = False, limit: int | None = None) -> str:
    """Aligned columns, two blanks apart, each as wide as it needs; the last is cut at `limit`."""
    cells = [[clean(column.text(row)) for column in columns] for row in rows]
    titles = [column.title for column in columns]
    widths = [max(map(width, cut)) for cut in zip(titles, *cells, strict=True)]
    lines = [_line(titles, columns, widths, limit)]
    for row, texts in zip(rows, cells, strict=True):
        paints = [column.color(row) if color and column.color else None for column in columns]
        lines.append(_line(texts, columns, widths, limit, paints))
    return "\n".join(lines)


def _line(
    texts: Sequence[str],
    columns: Sequence[Column],
    widths: Sequence[int],
    limit: int | None,
    paints: Sequence[str | None] | None = None,
) -> str:
    parts: list[str] = []
    used = 0
    for number, (text, column, size) in enumerate(zip(texts, columns, widths, strict=True)):
        last = number == len(columns) - 1
        if last and limit is not None:
            text = shortened(text, max(8, limit - used))
        blanks = " " * (size - width(text))
        painted = paint(text, paints[number]) if paints and paints[number] else text
        parts.append(blanks + painted if column.right else painted if last else painted + blanks)
        used += size + 2
    return "  ".join(parts).rstrip()


def shortened(text: str, size: int) -> str:
    """The text, cut with an ellipsis when it is wider than `size`."""
    if width(text) <= size:
        return text
    while width(text) > size - 1:
        text = text[:-1]
    return text + "…"


def width(text: str) -> int:
    """Columns on a terminal: Chinese signs take two."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(sign) else 2 if east_asian_width(sign) in "WF" else 1 for sign in text)


def clean(value: object) -> str:
    """Text that cannot move the cursor: control characters are shown as escapes; None is `--`."""
    if value is None or value == "":
        return UNKNOWN
    text = str(value)
    return text if text.isprintable() else "".join(sign if sign.isprintable() else _escape(sign) for sign in text)


def _escape(sign: str) -> str:
    return sign.encode("unicode_escape").decode("ascii")


def many(count: int, noun: str) -> str:
    """`1 card`, `4 cards`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def paint(text: str, color: str | None) -> str:
    return f"\x1b[{_COLORS[color]}m{text}\x1b[0m" if color else text


def _limit(output: str) -> int | None:
    """The terminal's width; pipes and `wide` are never cut."""
    if output == "wide" or not sys.stdout.isatty():
        return None
    import shutil

    return shutil.get_terminal_size().columns


def pairs(items: Iterable[tuple[str, object]]) -> str:
    """One thing's facts, a line each."""
    rows = [(title, clean(value)) for title, value in items]
    size = max((width(title) for title, _ in rows), default=0)
    return "\n".join(f"{title}{' ' * (size - width(title))}  {value}" for title, value in rows)


def print_error(error: GpupoolError) -> None:
    """`gpupool: GP-1001: what happened` and, indented, what to type next; on stderr."""
    lines = [f"gpupool: {error.code}: {_readable(error.message)}"]
    lines += [f"  {_readable(line)}" for line in error.hint.splitlines() if line.strip()]
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()


def _readable(text: str) -> str:
    return "\n  ".join(clean(line) if line else "" for line in text.splitlines())
