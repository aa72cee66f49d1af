"""Every NVML symbol that the sources do not define: present, answered NVML_ERROR_NOT_SUPPORTED, and
counted.

    python3 stubs.py --symbols SYMBOLS_JSON --reader NATIVE_CUDA --nm NM --out DIR OBJECT...

What is defined is read from the objects, so that a function is written in one place. Writes
`stubs.c`, and `exports.map`, which lets out the header's symbols and nothing else. A function of
ours that no header knows stops the build.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def defined_in(nm: str, objects: Sequence[str]) -> frozenset[str]:
    """NVML's functions among the global symbols of the objects."""
    listed = subprocess.run(
        [nm, "-g", "--defined-only", *objects], check=True, capture_output=True, text=True
    ).stdout
    names = (line.split()[-1] for line in listed.splitlines() if " T " in line)
    return frozenset(name for name in names if re.match("nvml[A-Z]", name))


def stubs(names: Sequence[str]) -> str:
    lines = ["/* Made by native/simgpu/nvml/gen/stubs.py. */", "int nvml_unsupported(void);", ""]
    lines += [
        f"int {name}(void);\nint {name}(void)\n{{\n    return nvml_unsupported();\n}}\n"
        for name in names
    ]
    return "\n".join(lines)


def exports(names: Sequence[str]) -> str:
    return "{\nglobal:\n" + "".join(f"    {name};\n" for name in names) + "local:\n    *;\n};\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--symbols", "--reader", "--nm", "--out"):
        parser.add_argument(option, required=True)
    parser.add_argument("objects", nargs="+")
    options = parser.parse_args()
    sys.path.insert(0, options.reader)
    import symbols

    known = sorted(symbol.name for symbol in symbols.load(Path(options.symbols))["libnvidia-ml"])
    written = defined_in(options.nm, options.objects)
    if strange := written - set(known):
        sys.exit(f"no header declares {', '.join(sorted(strange))}")
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "stubs.c").write_text(
        stubs([name for name in known if name not in written]), encoding="utf-8"
    )
    (out / "exports.map").write_text(exports(known), encoding="utf-8")


if __name__ == "__main__":
    main()
