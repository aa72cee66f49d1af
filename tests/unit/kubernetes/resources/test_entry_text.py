"""An entry of a ledger as a line of text says what its record says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.kubernetes.resources.entry_text import format_entry, parse_entry
from gpupool.kubernetes.resources.gpu_node import Entry, EntryState
from gpupool.model.allocation import Seat
from gpupool.model.claim import SharingKind
from gpupool.model.partition import PartitionSlot

LINE = (
    "uid=u1 namespace=team pod=a container=main cards=GPU-0:300:1073741824,GPU-1:1000:0 tenant=team state=reserved"
    " generation=7 heldNs=5"
)
ENTRY = Entry(
    "u1",
    "team",
    "a",
    "main",
    (Seat("GPU-0", 300, 1 << 30), Seat("GPU-1", 1000, 0)),
    "team",
    generation=7,
    held_ns=5,
)
words = st.text(max_size=20)
slots = st.builds(PartitionSlot, st.integers(0, 11), st.integers(1, 12), words)
seats = st.lists(
    st.builds(Seat, words, st.integers(0, 1000), st.integers(0, 1 << 40), st.none() | slots),
    max_size=3,
).map(tuple)
entries = st.builds(
    Entry,
    *[words] * 4,
    seats,
    words,
    st.sampled_from(SharingKind),
    st.integers(-(1 << 31), 1 << 31),
    words,
    words,
    st.sampled_from(EntryState),
    st.integers(1, 1 << 50),
    words,
    st.integers(0, 1 << 62),
    words,
    words,
)


def test_a_line_names_every_field_as_its_record_does() -> None:
    assert ENTRY.text == LINE
    assert Entry.from_json(LINE) == ENTRY
    assert parse_entry(LINE) == ENTRY.to_json()


def test_a_partition_stands_behind_its_card() -> None:
    slot = PartitionSlot(6, 1, "1g.18gb+me")
    entry = replace(ENTRY, seats=(Seat("GPU-0", 142, 1 << 34, slot), Seat("GPU-1", 1000, 0)))
    assert " cards=GPU-0:142:17179869184:1g.18gb+me:6:1,GPU-1:1000:0 " in entry.text
    assert Entry.from_json(entry.text) == entry
    assert Entry.from_json(entry.to_json()) == entry


@given(entries)
def test_any_entry_is_read_back_from_its_line(entry: Entry) -> None:
    assert Entry.from_json(entry.text) == entry
    assert "\n" not in entry.text


def test_names_that_hold_separators_are_read_back() -> None:
    odd = replace(ENTRY, gang="a b=c,d:e%20", seats=(Seat("0000:03:00.0,x", 1, 2),))
    assert parse_entry(format_entry(odd.to_json())) == odd.to_json()


@pytest.mark.parametrize("line", ["", "uid", "uid=u1 cards=GPU-0:1", "generation=x"])
def test_what_is_no_line_of_an_entry_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"without =|unpack|invalid literal"):
        parse_entry(line)
