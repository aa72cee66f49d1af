"""Put lists, objects and errors on the terminal: table, wide, json, yaml, csv.

Tables, facts and errors are in the chosen language, data never. No other module formats errors for
people. Unknown is `--`, never 0. Text that users typed (names,
commands) loses its control characters.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gpupool.base.errors import GpupoolError
from gpupool.terminal.context import print_notice
from gpupool.terminal.language import (
    data_stream,
    find_error_title,
    is_chinese,
    localize,
    localize_cell,
    localize_title,
)

Row = Mapping[str, Any]
UNKNOWN = "--"
#: ECMA-48 SGR parameters.
_COLORS = {"red": "31", "green": "32", "yellow": "33", "grey": "90", "bold": "1"}


class TableColumn:
    """One column of a table.

    Attributes:
        title: Its head.
        text: Returns the text of a row; None is shown as unknown.
        wide: Whether it is shown with `-o wide` alone.
        right: Whether it is set to the right, as numbers are.
        color: Returns the colour of a row; None has none.
        spare: On a terminal that is too narrow the column with the highest number is left out
            first; 0 never is.
    """

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
        self.title = title
        self.text = text
        self.wide = wide
        self.right = right
        self.color = color
        self.spare = spare


def print_list(
    rows: Sequence[Row],
    columns: Sequence[TableColumn],
    output: str,
    *,
    fields: Callable[[], Sequence[str]] = tuple,
    empty: str = "",
    color: bool = False,
    has_wide: bool = True,
) -> None:
    """Print rows in the wanted format.

    Args:
        fields: Names the CSV columns when there is no row to read them from.
        empty: What a table without rows says instead.
        has_wide: Whether the command has `-o wide`, for what is said of columns that are left out.
    """
    if output in ("json", "yaml"):
        print_data(list(rows), output)
    elif output == "csv":
        write_csv(rows, list(rows[0]) if rows else list(fields()))
    elif not rows and empty:
        sys.stdout.write(empty + "\n")
    else:
        shown = [column for column in columns if output == "wide" or not column.wide]
        limit = _find_width_limit(output)
        left_out: list[str] = []
        if limit is not None and any(column.spare for column in shown):
            every = [column.title for column in localize_columns(shown)]
            shown = drop_spare_columns(rows, shown, limit)
            kept = {column.title for column in shown}
            left_out = [title for title in every if title not in kept]
            # What is left may still be too wide: then the terminal wraps it, nothing is cut.
            limit = None
        sys.stdout.write(format_table(rows, shown, color=color, limit=limit) + "\n")
        if left_out:
            more = "-o wide shows all" if has_wide else "a wider terminal shows all"
            print_notice(f"columns left out: {', '.join(left_out)}; {more}")


def drop_spare_columns(
    rows: Sequence[Row], columns: Sequence[TableColumn], limit: int
) -> list[TableColumn]:
    """Leave out columns that can be spared until the widest line fits.

    The last column is shown whole.
    """
    columns = localize_columns(columns)
    shown = list(columns)
    widths = {}
    for column in columns:
        cells = [measure_width(clean_text(column.text(row))) for row in rows]
        widths[id(column)] = max(measure_width(column.title), *cells, 0)
    while sum(widths[id(one)] + 2 for one in shown) - 2 > limit:
        spare = max(shown, key=lambda one: one.spare)
        if not spare.spare:
            break
        shown.remove(spare)
    return shown


def print_data(value: Any, output: str) -> None:
    """Print any value as JSON or YAML."""
    if output == "yaml":
        # Only here: a table, the usual output, needs neither yaml nor json, each some ms to import.
        import yaml

        yaml.safe_dump(
            value, data_stream(), sort_keys=False, allow_unicode=True, default_flow_style=False
        )
        return
    import json

    json.dump(value, data_stream(), indent=2, ensure_ascii=False)
    data_stream().write("\n")


def write_csv(rows: Iterable[Row], fields: Sequence[str]) -> None:
    """Write one line per row; lists and objects are JSON in their cell."""
    import csv

    writer = csv.writer(data_stream(), lineterminator="\n")
    writer.writerow(fields)
    for row in rows:
        writer.writerow([_format_cell(row.get(name)) for name in fields])


def _format_cell(cell: Any) -> object:
    import json

    if isinstance(cell, (dict, list)):
        return json.dumps(cell)
    if isinstance(cell, bool):
        return str(cell).lower()  # as JSON has it, not Python's True
    return "" if cell is None else cell


def format_table(
    rows: Sequence[Row],
    columns: Sequence[TableColumn],
    *,
    color: bool = False,
    limit: int | None = None,
) -> str:
    """Format aligned columns, two blanks apart; sentences in the last one are cut at `limit`."""
    columns = localize_columns(columns)
    titles = [column.title for column in columns]
    cells = []
    for row in rows:
        cells.append([clean_text(column.text(row)) for column in columns])
    widths = [max(map(measure_width, cut)) for cut in zip(titles, *cells, strict=True)]
    lines = [_format_line(titles, columns, widths, limit)]
    for row, texts in zip(rows, cells, strict=True):
        paints = [column.color(row) if color and column.color else None for column in columns]
        lines.append(_format_line(texts, columns, widths, limit, paints))
    return "\n".join(lines)


def localize_columns(columns: Sequence[TableColumn]) -> list[TableColumn]:
    """Return the columns in the chosen language; a second time it changes nothing."""
    return [_localize_column(column) for column in columns] if is_chinese() else list(columns)


def _localize_column(column: TableColumn) -> TableColumn:
    def localize_text(row: Row) -> object:
        value = column.text(row)
        return value if value is None else localize_cell(column.title, str(value))

    return TableColumn(
        localize_title(column.title),
        localize_text,
        wide=column.wide,
        right=column.right,
        color=column.color,
        spare=column.spare,
    )


def _format_line(
    texts: Sequence[str],
    columns: Sequence[TableColumn],
    widths: Sequence[int],
    limit: int | None,
    paints: Sequence[str | None] | None = None,
) -> str:
    parts: list[str] = []
    used = 0
    for number, (text, column, size) in enumerate(zip(texts, columns, widths, strict=True)):
        last = number == len(columns) - 1
        # An address, an id or a figure without its end says something else: prose alone is cut.
        if last and limit is not None and " " in text and not column.right:
            text = shorten_text(text, max(8, limit - used))
        # Blanks are counted before painting: an escape sequence has no width on the screen.
        blanks = " " * (size - measure_width(text))
        painted = paint_text(text, paints[number]) if paints and paints[number] else text
        parts.append(blanks + painted if column.right else painted if last else painted + blanks)
        used += size + 2
    return "  ".join(parts).rstrip()


def shorten_text(text: str, size: int) -> str:
    """Cut a text with an ellipsis when it is wider than `size`."""
    if measure_width(text) <= size:
        return text
    while measure_width(text) > size - 1:
        text = text[:-1]
    return text + "…"


def measure_width(text: str) -> int:
    """Return the columns that a text takes on a terminal: Chinese signs take two."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    width = 0
    for sign in text:
        if combining(sign):
            continue  # drawn over the sign before it
        width += 2 if east_asian_width(sign) in "WF" else 1
    return width


def clean_text(value: object) -> str:
    """Return text that cannot move the cursor: control characters are escapes; None is `--`."""
    if value is None or value == "":
        return UNKNOWN
    text = str(value)
    if text.isprintable():
        return text
    # A job's name with an escape sequence could rewrite what the table says of other jobs.
    return "".join(sign if sign.isprintable() else _escape_sign(sign) for sign in text)


def _escape_sign(sign: str) -> str:
    return sign.encode("unicode_escape").decode("ascii")


def count_noun(count: int, noun: str) -> str:
    """Format `1 card`, `4 cards`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def paint_text(text: str, color: str | None) -> str:
    """Return the text in a colour; None leaves it as it is."""
    return f"\x1b[{_COLORS[color]}m{text}\x1b[0m" if color else text


def _find_width_limit(output: str) -> int | None:
    """Return the terminal's width; pipes and `wide` are never cut."""
    if output == "wide" or not sys.stdout.isatty():
        return None
    import shutil

    return shutil.get_terminal_size().columns


def format_pairs(items: Iterable[tuple[str, object]]) -> str:
    """Format facts about one thing, a line each."""
    rows = [(localize_title(title), _format_value(title, value)) for title, value in items]
    size = max((measure_width(title) for title, _ in rows), default=0)
    return "\n".join(
        f"{title}{' ' * (size - measure_width(title))}  {value}" for title, value in rows
    )


def _format_value(title: str, value: object) -> str:
    return localize_cell(title, clean_text(value))


def print_error(error: GpupoolError) -> None:
    """Print `gpupool: GP-1001: what happened` and, indented, what to type next; on stderr.

    A message without Chinese follows the title of its code, on a line of its own.
    `native/cli/pool/failure.h` prints the same form without Python.
    """
    message = localize(error.message)
    title = find_error_title(error.code)
    lines = [f"gpupool: {error.code}: {_clean_lines(message)}"]
    if title and message == error.message:
        lines = [f"gpupool: {error.code}: {title}", f"  {_clean_lines(message)}"]
    hint = localize(error.hint)
    lines += [f"  {_clean_lines(localize(line))}" for line in hint.splitlines() if line.strip()]
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()


def _clean_lines(text: str) -> str:
    return "\n  ".join(clean_text(line) if line else "" for line in text.splitlines())


def flatten_facts(facts: Mapping[str, object]) -> list[tuple[str, object]]:
    """List facts of an agent as pairs for people: an object by its parts that say something."""
    return [(name, _write_fact(fact)) for name, fact in sorted(facts.items())]


def _write_fact(fact: object) -> object:
    if isinstance(fact, list):
        return ", ".join(str(_write_fact(part)) for part in fact)
    if not isinstance(fact, dict):
        return fact
    parts = {name: part for name, part in fact.items() if part not in ("", 0, None, [], {})}
    return "; ".join(f"{name}: {_write_fact(part)}" for name, part in parts.items())
