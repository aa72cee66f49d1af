"""Completes the simulated driver: what the hand-written files define is asked of their objects, the
rest is generated.

    python3 generate.py --symbols symbols.json --reader native/cuda --include DIR... --out DIR --nm nm OBJECT...

writes into the directory `--out`
    stubs.c    every symbol of the headers that no object defines: it counts the call and answers NOT_SUPPORTED
    twins.c    every `_ptsz`/`_ptds` twin of a defined symbol: a function of its own that says that the default stream
               is the calling thread's while it calls the plain one
    lookup_table.c   (base name, version, symbol, twin) behind cuGetProcAddress, and which symbols are implemented
    error_names.c    the enumerators of CUresult
Nothing of the vendor's headers is kept but names and numbers, and these only in the build tree.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from symbols import Symbol, Symbols

MADE_BY = "/* Made by native/simgpu/driver/gen/generate.py. */\n"
_ENUMERATORS = re.compile(r"typedef enum cudaError_enum \{(.*?)\} CUresult;", re.S)
_DEFINED = re.compile(r"^[0-9a-f]+ [TW] (cu[A-Z]\w*)$", re.M)


def defined_symbols(nm: str, objects: Sequence[Path]) -> set[str]:
    """Driver functions that the objects define. Raises CalledProcessError."""
    listing = subprocess.run(
        [nm, "--defined-only", *map(str, objects)], check=True, text=True, stdout=subprocess.PIPE
    )
    return set(_DEFINED.findall(listing.stdout))


def stubs(names: Sequence[str]) -> str:
    """A function for each name. Its parameters do not matter: the caller removes what it passed."""
    lines = [MADE_BY, "int unsupported(const char *symbol, const void *caller);\n"]
    lines += [
        f'__attribute__((visibility("default"))) int {name}(void);\n'
        f'int {name}(void) {{ return unsupported("{name}", __builtin_return_address(0)); }}\n'
        for name in names
    ]
    return "".join(lines)


def twins(symbols: Sequence[Symbol]) -> str:
    """The per-thread twins of defined functions."""
    lines = [MADE_BY, '#include "streams/stream.h"\n\n']
    for symbol in symbols:
        parameters = ", ".join(f"{p.type} {p.name}" for p in symbol.prototype.parameters) or "void"
        arguments = ", ".join(p.name for p in symbol.prototype.parameters)
        lines.append(
            f"CUresult {symbol.name}({parameters})\n{{\n    ++per_thread_default;\n"
            f"    CUresult result = {symbol.plain}({arguments});\n    --per_thread_default;\n    return result;\n}}\n\n"
        )
    return "".join(lines)


def lookup_table(library: Symbols, implemented: set[str]) -> str:
    """Rows in order of base name and version, as lookup.c searches them."""
    plain = sorted((s for s in library if not s.twin), key=lambda s: (s.base, s.born or 0, s.form))
    lines = [MADE_BY, '#include "process/lookup.h"\n\n']
    lines += [f'extern char at_{s.name}[] __asm__("{s.name}");\n' for s in library]
    lines.append("\nconst struct lookup_row lookup_rows[] = {\n")
    for symbol in plain:
        twin = library.twin_of(symbol) or symbol
        lines.append(
            f'    {{"{symbol.base}", {symbol.born or 0}, "{symbol.name}", at_{symbol.name}, at_{twin.name}}},\n'
        )
    lines.append("};\n")
    lines.append(
        f"const unsigned lookup_row_count = {len(plain)};\n\nconst struct lookup_export lookup_exports[] = {{\n"
    )
    lines += [
        f'    {{"{s.name}", {int(s.name in implemented)}}},\n'
        for s in sorted(library, key=lambda s: s.name)
    ]
    lines.append(f"}};\nconst unsigned lookup_export_count = {len(library.by_name)};\n")
    return "".join(lines)


def error_names(compiler: str, includes: Sequence[Path]) -> str:
    """(number, name) of each error that the newest header knows. Raises CalledProcessError,
    ValueError."""
    command = [compiler, "-E", "-P", "-xc", *(f"-I{path}" for path in includes), "-"]
    text = subprocess.run(
        command, input="#include <cuda.h>\n", text=True, check=True, stdout=subprocess.PIPE
    ).stdout
    found = _ENUMERATORS.search(text)
    if found is None:
        raise ValueError("cuda.h declares CUresult in a way that is not known here")
    rows = re.findall(r"(CUDA_\w+)\s*=\s*(\d+)", found[1])
    lines = [MADE_BY, '#include "process/errors.h"\n\nconst struct error_name error_names[] = {\n']
    lines += [
        f'    {{{number}, "{name}"}},\n'
        for name, number in sorted(rows, key=lambda row: int(row[1]))
    ]
    return "".join([*lines, f"}};\nconst unsigned error_name_count = {len(rows)};\n"])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    for name in ("symbols", "reader", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--include", type=Path, action="append", required=True)
    parser.add_argument("--compiler", default="cc")
    parser.add_argument("--nm", default="nm")
    parser.add_argument("objects", type=Path, nargs="+")
    asked = parser.parse_args(arguments)
    sys.path.insert(0, str(asked.reader))
    from symbols import load, replace

    library = load(asked.symbols)["libcuda"]
    defined = defined_symbols(asked.nm, asked.objects)
    foreign = sorted(defined - set(library.by_name))
    if foreign:
        print(f"generate.py: defined but in no header: {', '.join(foreign)}", file=sys.stderr)
        return 1
    paired = [s for s in library if s.twin and s.plain in defined and s.name not in defined]
    implemented = defined | {s.name for s in paired}
    asked.out.mkdir(parents=True, exist_ok=True)
    replace(asked.out / "stubs.c", stubs(sorted(set(library.by_name) - implemented)))
    replace(asked.out / "twins.c", twins(paired))
    replace(asked.out / "lookup_table.c", lookup_table(library, implemented))
    replace(asked.out / "error_names.c", error_names(asked.compiler, asked.include))
    print(f"simulated driver: {len(library.by_name)} symbols, {len(implemented)} with behaviour")
    return 0


if __name__ == "__main__":
    sys.exit(main())
