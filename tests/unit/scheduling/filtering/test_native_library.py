from pathlib import Path

import numpy as np
import pytest

from gpupool.base.units import GIB
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.filtering.native_library import (
    MAX_CARDS,
    NativeLibrary,
    adopt_native_library,
    get_native_library_path,
)
from tests.support.scheduling_builders import cards


def test_a_pool_that_is_too_wide_or_empty_is_left_to_numpy(kernel: NativeLibrary) -> None:
    assert FreeCapacity(cards(f"2x{MAX_CARDS}xT4")).kernel is kernel
    assert FreeCapacity(cards(f"1x{MAX_CARDS + 1}xT4")).kernel is None
    assert FreeCapacity(cards("")).kernel is None
    with pytest.raises(LookupError, match="not for it"):
        FreeCapacity(cards(""), compiled=True)


def test_numpy_is_used_where_no_library_was_adopted(kernel: NativeLibrary, tmp_path: Path) -> None:
    path = get_native_library_path()
    assert path is not None
    assert not adopt_native_library(tmp_path / "none.so")
    assert get_native_library_path() is None
    assert FreeCapacity(cards("1x1xT4")).kernel is None
    with pytest.raises(LookupError, match="none was adopted"):
        FreeCapacity(cards("1x1xT4"), compiled=True)
    assert adopt_native_library(path)
    assert FreeCapacity(cards("1x1xT4")).kernel is not None


def test_the_places_are_the_free_columns_themselves(kernel: NativeLibrary) -> None:
    free = FreeCapacity(cards("2x2xT4"), compiled=True)
    places = free.places
    free.take_seats(1, free.get_node_rows(1)[:1], 300, np.array([GIB]))
    assert places.grid.tolist() == [[1000, 1000], [700, 1000]]
    assert places.rows.tolist() == [[0, 1], [2, 3]]
    assert places.cards.tolist() == [2, 2]
