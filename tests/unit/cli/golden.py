"""Whole outputs compared with files; GPUPOOL_UPDATE_GOLDEN=1 writes them anew, to be read in the
diff."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "golden" / "cli"

# The fixtures of conftest.py.
GoldenLine = Callable[[str, str], None]
TypedLine = Callable[[str], tuple[int, str, str]]
AnswerWith = Callable[..., None]


def compare(name: str, text: str) -> None:
    """Fail unless the text is the golden file's."""
    file = FOLDER / f"{name}.txt"
    if os.environ.get("GPUPOOL_UPDATE_GOLDEN") == "1":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert text == file.read_text(), f"{file} differs; GPUPOOL_UPDATE_GOLDEN=1 writes it anew"
