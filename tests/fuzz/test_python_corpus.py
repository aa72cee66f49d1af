"""Every input of the corpus gets a documented answer from the parser in Python that it is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.python_targets import TARGETS, once
from tests.fuzz.targets import CORPUS


@pytest.mark.parametrize("target", TARGETS)
def test_the_corpus_gets_documented_answers(tmp_path: Path, target: str) -> None:
    files = sorted((CORPUS / target).iterdir())
    assert len(files) >= 3, "a target without seeds searches in the dark"
    for file in files:
        once(target, file.read_bytes(), tmp_path)
