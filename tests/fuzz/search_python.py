"""Coverage-guided search by Atheris in one Python target: `python -m tests.fuzz.search_python
TARGET OPTION...`.

Options and exit status are libFuzzer's. Atheris has to see modules while they are imported, so that
nothing of gpupool may be imported before.
"""

from __future__ import annotations

import importlib
import os
import resource
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

#: Recursion as deep as a command has: the default of CPython.
RECURSION: Final = 1000
MISSING = """fuzz: atheris is needed for the parsers in Python (CPython 3.11 to 3.13 on Linux):
  "$(python3 -I -S tools/get_uv.py)" sync --frozen --group fuzz"""


def load_atheris() -> Any:
    """The module. Raises SystemExit that names the command which installs it."""
    try:
        return importlib.import_module("atheris")
    except ImportError:
        raise SystemExit(MISSING) from None


def main() -> None:
    atheris, (program, target, *options) = load_atheris(), sys.argv
    with atheris.instrument_imports(include=["gpupool", "yaml"]):
        targets = importlib.import_module("tests.fuzz.python_targets")
    sys.setrecursionlimit(RECURSION)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="gpupool-fuzz-", dir=memory) as folder:
        atheris.Setup([program, *options], lambda data: targets.once(target, data, Path(folder)))
        atheris.Fuzz()


if __name__ == "__main__":
    main()
