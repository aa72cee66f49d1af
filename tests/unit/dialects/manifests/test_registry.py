"""The table of all words: every one is whole, has a place, and belongs to a dialect with a
source."""

from __future__ import annotations

import pytest

from gpupool.dialects.batch import lsf, slurm
from gpupool.dialects.contract import Dialect, WordPlace
from gpupool.dialects.manifests.registry import DIALECTS, find_word


@pytest.mark.parametrize("dialect", DIALECTS, ids=[one.name for one in DIALECTS])
def test_every_dialect_says_its_words_and_their_source(dialect: Dialect) -> None:
    assert dialect.source
    assert dialect.names
    assert len({(name.key, name.where) for name in dialect.names}) == len(dialect.names)
    assert all(name.values and name.meaning for name in dialect.names)


def test_names_are_unique() -> None:
    assert len({one.name for one in DIALECTS}) == len(DIALECTS)
    assert all(name.where is WordPlace.OPTION for name in (*slurm.NAMES, *lsf.NAMES))


def test_a_word_is_found_at_its_place_alone_and_by_pattern() -> None:
    assert find_word("nvidia.com/gpumem", WordPlace.RESOURCE) is not None
    assert find_word("nvidia.com/gpumem", WordPlace.LABEL) is None
    assert find_word("nvidia.com/mig-1g.5gb", WordPlace.RESOURCE) is not None
    assert find_word("trainer.gpupool.dev/sharing", WordPlace.ANNOTATION) is not None
    assert find_word("nvidia.com/mig-1g/5gb", WordPlace.RESOURCE) is None
