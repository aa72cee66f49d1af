"""The table of all words: every one is whole, has a place, and belongs to a dialect with a source."""

from __future__ import annotations

import pytest

from gpupool.dialects import lsf, slurm
from gpupool.dialects.contract import Dialect, Where
from gpupool.dialects.registry import DIALECTS, find


@pytest.mark.parametrize("dialect", DIALECTS, ids=[one.name for one in DIALECTS])
def test_every_dialect_says_its_words_and_their_source(dialect: Dialect) -> None:
    assert dialect.source
    assert dialect.names
    assert len({(name.key, name.where) for name in dialect.names}) == len(dialect.names)
    assert all(name.values and name.meaning for name in dialect.names)


def test_names_are_unique() -> None:
    assert len({one.name for one in DIALECTS}) == len(DIALECTS)
    assert all(name.where is Where.OPTION for name in (*slurm.NAMES, *lsf.NAMES))


def test_a_word_is_found_at_its_place_alone_and_by_pattern() -> None:
    assert find("nvidia.com/gpumem", Where.RESOURCE) is not None
    assert find("nvidia.com/gpumem", Where.LABEL) is None
    assert find("nvidia.com/mig-1g.5gb", Where.RESOURCE) is not None
    assert find("trainer.gpupool.dev/sharing", Where.ANNOTATION) is not None
    assert find("nvidia.com/mig-1g/5gb", Where.RESOURCE) is None
