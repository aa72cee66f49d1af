"""One object of a machine file: its types, its limits, and the place in each refusal."""

import pytest

from gpupool.base.errors import BadMachine
from gpupool.probes.entry import MachineEntry, check_whole


def test_unknown_key_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadMachine, match="the card has an unknown key 'b'") as caught:
        MachineEntry({"a": 1, "b": 2}, "the card", frozenset({"a", "c"}))
    assert caught.value.hint == "Known keys: a, c"


def test_missing_keys_and_null_are_unknown_or_empty() -> None:
    entry = MachineEntry({"a": None}, "the card")
    assert (entry.read_text("a"), entry.read_flag("b"), entry.read_integer("b")) == (None,) * 3
    assert (entry.read_mib("b"), entry.read_list("b"), entry.has_key("a")) == (None, [], False)
    assert list(entry.read_entry("b").iterate_items()) == []


def test_mib_are_returned_as_bytes_up_to_an_exbibyte() -> None:
    assert MachineEntry({"m": 2**40}, "the card").read_mib("m") == 2**60
    with pytest.raises(BadMachine, match='"m" of the card must be a whole number'):
        MachineEntry({"m": 2**40 + 1}, "the card").read_mib("m")


@pytest.mark.parametrize("value", [True, 1.0, "1", 0, 2**53 + 1])
def test_value_that_is_no_whole_number_in_range_is_refused(value: object) -> None:
    with pytest.raises(BadMachine, match="the count must be a whole number of at least 1"):
        check_whole(value, "the count", 1)
    assert check_whole(2**53, "the count", 1) == 2**53
