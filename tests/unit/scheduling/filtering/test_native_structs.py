"""Structures for the native library: addresses of columns, kept for as long as they are used."""

from __future__ import annotations

import ctypes
import gc
import weakref

import numpy as np
import pytest

from gpupool.scheduling.filtering.native_structs import (
    NativeStructs,
    ShapeStruct,
    get_address,
)


def test_a_column_with_gaps_in_memory_is_refused() -> None:
    column = np.arange(6)
    assert get_address(column) == column.ctypes.data
    with pytest.raises(ValueError, match="in one piece"):
        get_address(column[::2])


def test_a_built_structure_holds_numbers_addresses_and_nothing_for_none() -> None:
    why = np.zeros(3, dtype=np.int8)
    structs = NativeStructs()
    at = structs.build_struct(ShapeStruct, count=2, milli=300, cpu=4000, why=why, need=None)
    made = ShapeStruct.from_address(at)
    assert (made.count, made.milli, made.cpu) == (2, 300, 4000)
    assert (made.why, made.need) == (why.ctypes.data, None)


def test_a_column_lives_as_long_as_the_structures_that_point_to_it() -> None:
    column = np.arange(4)
    alive = weakref.ref(column)
    structs = NativeStructs()
    at = structs.keep_column(column)
    del column
    gc.collect()
    assert alive() is not None
    assert ctypes.c_int64.from_address(at + 8).value == 1
    del structs
    gc.collect()
    assert alive() is None
