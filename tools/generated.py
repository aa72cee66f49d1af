"""Files that a tool makes from the code: written where they have changed, or with `--check` only
compared."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent


def write_or_check(made: Mapping[Path, str]) -> int:
    """The exit status: with `--check` 1 where a file is not as it would be written."""
    stale = [
        path
        for path, text in made.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not what the code says: make docs", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made[path], encoding="utf-8")
        print(path.relative_to(ROOT))
    return 0
