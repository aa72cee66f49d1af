"""Lists the handlers of a linked library that are still the generated weak ones, which only pass
through.

python3 unwritten.py --nm nm LIBRARY LIST
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

SECTION = "fence_unwritten"


def main(asked: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nm", default="nm")
    parser.add_argument("library", type=Path)
    parser.add_argument("list", type=Path)
    options = parser.parse_args(asked)
    names = unwritten(options.nm, options.library)
    options.list.write_text("".join(f"{name}\n" for name in names))
    if names:
        print(
            f"{options.library.name}: {len(names)} handlers are not written and pass through: {options.list}"
        )
    return 0


def unwritten(nm: str, library: Path) -> list[str]:
    """Names of the functions in the section of the generated defaults: `cuX` is handler own,
    `fence_on_X` own:X."""
    command = [nm, "--format=sysv", "--defined-only", str(library)]
    done = subprocess.run(command, text=True, check=True, stdout=subprocess.PIPE)
    symbols = ([cell.strip() for cell in line.split("|")] for line in done.stdout.splitlines())
    return sorted(
        {
            cells[0]
            for cells in symbols
            if len(cells) == 7 and cells[6] == SECTION and cells[3] == "FUNC"
        }
    )


if __name__ == "__main__":
    sys.exit(main())
