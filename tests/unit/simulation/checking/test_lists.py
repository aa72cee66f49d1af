"""Raw lists and cells of a record, as the checkers read them."""

from __future__ import annotations

import pytest

from gpupool.simulation.checking.lists import (
    MIB,
    is_model_match,
    parse_nanoseconds,
    read_cards,
    read_claims,
    read_integer,
    read_node,
)

PLAIN = {"arrival_seconds": "1.5", "seconds": "0", "gpu_milli": "500"}


def test_read_claims_fills_empty_cells_with_the_defaults_of_a_trace() -> None:
    ((name, claim),) = read_claims([PLAIN])
    assert name == "job-000000"
    assert (claim.arrival_ns, claim.run_ns) == (1_500_000_000, 1)
    assert (claim.milli, claim.cards, claim.memory_bytes, claim.gang) == (500, 1, 0, "")


def test_read_claims_names_members_and_makes_them_a_gang() -> None:
    found = dict(read_claims([{**PLAIN, "job": "train", "members": "2"}]))
    assert list(found) == ["train.0", "train.1"]
    assert {one.gang for one in found.values()} == {"train"}
    named = dict(read_claims([{**PLAIN, "job": "train", "members": "2", "gang": "g"}]))
    assert named["train.0"].gang == "g"


def test_read_claims_of_a_job_without_cards_has_none() -> None:
    ((_, none),) = read_claims([{**PLAIN, "gpu_milli": "0"}])
    ((_, slot),) = read_claims([{**PLAIN, "gpu_milli": "", "profile": "1g.10gb"}])
    assert (none.cards, none.partition) == (0, False)
    assert (slot.cards, slot.partition) == (1, True)


def test_read_node_without_figures_leaves_them_unknown() -> None:
    name, node = read_node({"sn": "", "model": "T4", "gpu": "2"}, 5)
    assert name == "line-5"
    assert (node.cards, node.memory_bytes, node.cpu_milli, node.host_bytes) == (2, None, None, None)
    row = {"sn": "n1", "model": "T4", "gpu": "2.0", "memory_mib": "3", "gpu_memory_mib": "4"}
    name, node = read_node(row, 5)
    assert (name, node.cards, node.memory_bytes, node.host_bytes) == ("n1", 2, 4 * MIB, 3 * MIB)


@pytest.mark.parametrize(
    ("text", "expected"), [("0.1", 10**8), ("1.0000000005", 10**9), ("1.0000000015", 10**9 + 2)]
)
def test_parse_nanoseconds_rounds_half_to_even(text: str, expected: int) -> None:
    assert parse_nanoseconds(text) == expected


def test_read_cells_that_are_no_numbers_are_named() -> None:
    with pytest.raises(ValueError, match=r"gpu_milli is '1\.5', not a whole number"):
        read_integer({"gpu_milli": "1.5"}, "gpu_milli")
    with pytest.raises(ValueError, match="cards is '0;1', not whole numbers with spaces"):
        read_cards({"cards": "0;1"})
    assert read_cards({"cards": ""}) == ()


@pytest.mark.parametrize(
    ("has", "asks", "matches"),
    [
        ("A100-80G", "", True),
        ("A100-80G", "a100", True),
        ("A100-80G", "A100-80g", True),
        ("A100-40G", "A100-80G", False),
        ("A1000", "A100", False),
        ("T4", "L4|T4", True),
    ],
)
def test_is_model_match_takes_a_family_or_a_model(has: str, asks: str, matches: bool) -> None:
    assert is_model_match(has, asks) is matches
