"""References to members of arrays that have no row: what is one, and what is a name or a job's id."""

from __future__ import annotations

import pytest

from gpupool.allocations.arrays.references import (
    MAX_ARRAY_SIZE,
    MemberReference,
    build_topic,
    is_array_id,
    parse_index,
    parse_reference,
    split_name,
)

ARRAY = "y-4k9x2m7q8w"


def test_parse_reference_reads_back_what_a_reference_prints() -> None:
    reference = MemberReference(ARRAY, 17)
    assert str(reference) == f"{ARRAY}.17"
    assert parse_reference(str(reference)) == reference


@pytest.mark.parametrize(
    "text", [ARRAY, f"{ARRAY}.", f"{ARRAY}.x", "j-4k9x2m7q8w.1", "sweep.1", f"{ARRAY}.1.2"]
)
def test_parse_reference_of_a_job_id_or_a_name_is_none(text: str) -> None:
    assert parse_reference(text) is None


def test_is_array_id_tells_arrays_from_jobs_and_names() -> None:
    assert is_array_id(ARRAY)
    assert not is_array_id("j-4k9x2m7q8w")
    assert not is_array_id("y-short")


@pytest.mark.parametrize(
    ("digits", "index"),
    [
        ("0", 0),
        (str(MAX_ARRAY_SIZE), MAX_ARRAY_SIZE),
        ("07", None),
        ("-1", None),
        ("", None),
        ("²", None),
        ("10000000", None),
    ],
)
def test_parse_index_takes_one_spelling_of_each_index(digits: str, index: int | None) -> None:
    assert parse_index(digits) == index


def test_split_name_needs_a_name_before_the_last_dot() -> None:
    assert split_name("sweep.v2.17") == ("sweep.v2", 17)
    assert [split_name(text) for text in ("sweep", ".17", "sweep.017")] == [None] * 3


def test_build_topic_of_a_member_without_a_row_is_its_arrays() -> None:
    assert build_topic(f"{ARRAY}.3") == ("job", ARRAY)
    assert build_topic("j-4k9x2m7q8w") == ("job", "j-4k9x2m7q8w")
