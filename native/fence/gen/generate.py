"""Turns a classified table into the C that the stand-in is built from.

    python3 generate.py driver|nvml --symbols symbols.json --table FILE.tsv --into DIRECTORY

Writes PREFIX_real.h (the struct of the driver's functions), PREFIX_handlers.h (prototypes of what
is exported and of what is written by hand), PREFIX_wrappers.c, PREFIX_defaults.c (weak ones for
functions that are not written by hand yet) and PREFIX_table.c (what gen/table.h asks about). Exit status 1
and every fault on stderr when the table is not complete.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "cuda"))

from classified import BadTable, Row, read
from symbols import Symbol, load, replace
from unwritten import SECTION
from wrappers import arguments, heading, parameters, wrappers

# What gen/ calls and others write, besides the handlers.
HOOKS = (
    "UNWRITTEN void fence_unknown_lookup(const char *name) {\n    (void)name;\n}\n",
    "UNWRITTEN void fence_work_begin(struct fence_work *work) {\n    (void)work;\n}\n",
    "UNWRITTEN CUresult fence_work_end(struct fence_work *work, CUresult it) {\n    (void)work;\n    return it;\n}\n",
    "UNWRITTEN bool fence_wait_begin(void) {\n    return false;\n}\n",
    "UNWRITTEN CUresult fence_wait_end(bool begun, CUresult it) {\n    (void)begun;\n    return it;\n}\n",
)
MADE = "/* Made by native/fence/gen from the classified table. */\n"


@dataclass(frozen=True)
class Side:
    """What differs between the two libraries that are stood in for."""

    name: str
    library: str
    prefix: str
    real: str
    header: str
    symbol_prefix: str
    absent: str


SIDES = {
    "driver": Side(
        "driver",
        "libcuda",
        "fence",
        "fence_real",
        "gpupool/cuda_all.h",
        "cu",
        "CUDA_ERROR_NOT_FOUND",
    ),
    "nvml": Side(
        *("nvml", "libnvidia-ml", "fence_nvml", "fence_nvml_real", "gpupool/nvml_all.h", "nvml"),
        "NVML_ERROR_FUNCTION_NOT_FOUND",
    ),
}


def main(asked: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("side", choices=SIDES)
    for name in ("symbols", "table", "into"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    options = parser.parse_args(asked)
    side = SIDES[options.side]
    try:
        rows = read(options.table, load(options.symbols)[side.library])
        made = files(side, rows)
    except BadTable as faults:
        print(faults, file=sys.stderr)
        return 1
    options.into.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        replace(options.into / name, MADE + text)
    return 0


def files(side: Side, rows: Sequence[Row]) -> dict[str, str]:
    """Every file's name and text."""
    handled = [row for row in rows if row.handled]
    return {
        f"{side.prefix}_real.h": real_header(side, rows),
        f"{side.prefix}_handlers.h": handlers_header(side, handled),
        f"{side.prefix}_wrappers.c": wrappers_source(side, handled),
        f"{side.prefix}_defaults.c": defaults_source(side, handled),
        f"{side.prefix}_table.c": table_source(side, rows),
    }


def real_header(side: Side, rows: Iterable[Row]) -> str:
    members = "".join(f"    {pointer(row.symbol, row.symbol.name)};\n" for row in rows)
    return (
        f"#pragma once\n#include <{side.header}>\n\n"
        f"/* The driver's own functions; one that it lacks returns {side.absent}. */\n"
        f"struct {side.real} {{\n{members}}};\n\nextern struct {side.real} {side.real};\n"
    )


def pointer(symbol: Symbol, name: str) -> str:
    return f"{symbol.prototype.returns} (*{name})({parameters(symbol)})"


def handlers_header(side: Side, handled: Sequence[Row]) -> str:
    lines = [f"#pragma once\n#include <{side.header}>\n"]
    lines.append("/* A function of ours, exported under the name that it stands in for. */")
    lines.append(
        '#define FENCE_EXPORT(name) __asm__(#name) __attribute__((visibility("default")))\n'
    )
    lines += [f"{heading(row.symbol)} FENCE_EXPORT({row.symbol.name});" for row in handled]
    lines += [f"{stem_type(row)}\n{stem_heading(row)};" for row in stems(handled)]
    return "\n".join([*lines, ""])


def stems(handled: Iterable[Row]) -> Iterator[Row]:
    """One row for each handler `own:NAME`: the plain symbol's, whose parameter names are then
    taken."""
    seen: set[str] = set()
    for row in handled:
        if row.stem and row.stem not in seen:
            seen.add(row.stem)
            yield row


def stem_type(row: Row) -> str:
    return f"typedef {row.symbol.prototype.returns} fence_{row.stem}_function({parameters(row.symbol)});"


def stem_heading(row: Row) -> str:
    return (
        f"{row.symbol.prototype.returns} "
        f"fence_on_{row.stem}(fence_{row.stem}_function *real, {parameters(row.symbol)})"
    )


def wrappers_source(side: Side, handled: Iterable[Row]) -> str:
    lines = [f'#include "{side.prefix}_handlers.h"\n#include "{side.prefix}_real.h"']
    if side.name == "driver":
        lines.append('#include "sizes.h"\n#include "work.h"\n')
        lines.append("#define FENCE_STREAM(given, standard) ((given) ? (given) : (standard))")
    lines.append('#pragma GCC diagnostic ignored "-Wunused-parameter" /* of what is refused */\n')
    return "\n".join([*lines, *wrappers(handled, side.real)])


def defaults_source(side: Side, handled: Sequence[Row]) -> str:
    lines = [f'#include "{side.prefix}_handlers.h"\n#include "{side.prefix}_real.h"\n']
    lines.append("/* A section of their own, by which unwritten.py knows them after linking. */")
    lines.append(f'#define UNWRITTEN __attribute__((weak, section("{SECTION}")))\n')
    if side.name == "driver":
        lines = ['#include "table.h"\n#include "work.h"', *lines, *HOOKS]
    for row in handled:
        if row.handler == "own":
            lines.append(f"UNWRITTEN {heading(row.symbol)} {{")
            lines.append(
                f"    return {side.real}.{row.symbol.name}({arguments(row.symbol)});\n}}\n"
            )
    for row in stems(handled):
        lines.append(
            f"UNWRITTEN {stem_heading(row)} {{\n    return real({arguments(row.symbol)});\n}}\n"
        )
    return "\n".join([*lines, ""])


def table_source(side: Side, rows: Sequence[Row]) -> str:
    returns = sorted({row.symbol.prototype.returns for row in rows})
    absent = {kind: f"absent_{place}" for place, kind in enumerate(returns)}
    lines = [
        f'#include "{side.prefix}_handlers.h"\n#include "{side.prefix}_real.h"\n#include "table.h"\n'
    ]
    for kind, name in absent.items():
        value = '""' if "*" in kind else side.absent
        lines.append(f"static {kind} {name}(void) {{ return {value}; }}")
    lines.append(f"\nstruct {side.real} {side.real} = {{")
    lines += [
        f"    .{row.symbol.name} = (void *){absent[row.symbol.prototype.returns]}," for row in rows
    ]
    lines.append(f"}};\n\nstatic void *answers[{sum(row.handled for row in rows)}];\n")
    lines.append("static const struct fence_symbol symbols[] = {")
    answers = iter(range(len(rows)))
    lines += [
        entry(side, row, absent, f"&answers[{next(answers)}]" if row.handled else "NULL")
        for row in rows
    ]
    lines.append("};\n")
    lines.append(f"const struct fence_table fence_{side.name}_table = {{")
    lines.append(f'    "{side.symbol_prefix}", symbols, sizeof symbols / sizeof symbols[0]}};\n')
    return "\n".join(lines)


def entry(side: Side, row: Row, absent: dict[str, str], answer: str) -> str:
    symbol = row.symbol
    ours = f"(void *)fence_{symbol.name}" if row.handled else "NULL"
    return (
        f'    {{"{symbol.name}", "{symbol.base}", {symbol.born or 0}, {str(bool(symbol.twin)).lower()}, '
        f"FENCE_{row.klass.upper()}, (void **)&{side.real}.{symbol.name}, "
        f"(void *){absent[symbol.prototype.returns]}, {ours}, {answer}}},"
    )


if __name__ == "__main__":
    sys.exit(main())
