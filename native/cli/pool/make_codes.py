"""Writes codes.h: what the front door must know of Python's errors and of Python's idea of
printable text.

    .venv/bin/python native/cli/pool/make_codes.py > native/cli/pool/codes.h

A test says when the file is no longer current. Unassigned code points are not in it: which they are
changes with every Python, and they can do a terminal no harm.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Iterator

from gpupool.base.errors import ServiceUnavailable, list_error_classes


def ranges(wanted: Callable[[str], bool]) -> Iterator[tuple[int, int]]:
    """First and last of each run of code points that are wanted."""
    first = None
    for code in range(sys.maxunicode + 2):
        inside = code <= sys.maxunicode and wanted(chr(code))
        if inside and first is None:
            first = code
        elif not inside and first is not None:
            yield first, code - 1
            first = None


def unprintable(sign: str) -> bool:
    return not sign.isprintable() and unicodedata.category(sign) != "Cn"


def breaks_lines(sign: str) -> bool:
    return len(f"a{sign}b".splitlines()) == 2


def table(name: str, wanted: Callable[[str], bool]) -> Iterator[str]:
    yield f"static const struct range {name}[] = {{"
    yield from (f"    {{{first:#x}, {last:#x}}}," for first, last in ranges(wanted))
    yield "};"
    yield ""


def header() -> str:
    """The whole file."""
    lines = [
        "/* Written by make_codes.py; do not edit. */",
        "#ifndef FRONT_CODES_H",
        "#define FRONT_CODES_H",
        "",
        "#include <stdbool.h>",
        "#include <stdint.h>",
        "",
        "/* Every public code: its exit code, and whether it says that the pool cannot answer now. */",
        "static const struct {",
        "    const char *code;",
        "    int exit_code;",
        "    bool unavailable;",
        "} CODES[] = {",
    ]
    for code, kind in list_error_classes().items():
        lines.append(
            f'    {{"{code}", {kind.exit_code}, {str(issubclass(kind, ServiceUnavailable)).lower()}}},'
        )
    lines += [
        "};",
        "",
        "struct range {",
        "    uint32_t first, last;",
        "};",
        "",
        "/* Shown as escapes. */",
    ]
    lines += table("UNPRINTABLE", unprintable)
    lines += ["/* What ends a line for str.splitlines. */", *table("LINE_BREAKS", breaks_lines)]
    lines += ["/* What str.strip takes away. */", *table("BLANKS", str.isspace)]
    return "\n".join([*lines, "#endif", ""])


if __name__ == "__main__":
    sys.stdout.write(header())
