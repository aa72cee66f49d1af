"""Every input of the corpus is survived by the parser that it is for, under the sanitizers of a
plain compiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.targets import CORPUS, TARGETS, build, replay


@pytest.mark.parametrize("target", TARGETS)
def test_the_corpus_is_survived(tmp_path: Path, target: str) -> None:
    files = sorted((CORPUS / target).iterdir())
    assert len(files) >= 3, "a target without seeds searches in the dark"
    replay(build(target, tmp_path), files)
