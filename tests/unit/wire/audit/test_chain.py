"""The chain: whole logs hold, and every change, gap and foreign begin is found at its record."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import pytest

from gpupool.wire.audit.chain import (
    GENESIS,
    ChainReading,
    ChainVerifier,
    compute_hash,
    write_canonical,
)


def make_chain(count: int, first: int = 1, previous: str = GENESIS) -> list[dict[str, Any]]:
    """Make records as the log exports them."""
    records = []
    for seq in range(first, first + count):
        record: dict[str, Any] = {"seq": seq, "at_ns": seq * 10, "kind": "change", "user": "ada"}
        digest = compute_hash(previous, write_canonical(record))
        records.append({**record, "previous": previous, "hash": digest})
        previous = digest
    return records


def add_record(records: list[dict[str, Any]], **fields: Any) -> None:
    last = records[-1]
    record = {"seq": last["seq"] + 1, "at_ns": last["at_ns"], **fields}
    digest = compute_hash(last["hash"], write_canonical(record))
    records.append({**record, "previous": last["hash"], "hash": digest})


def read(records: Sequence[dict[str, Any]], expected: str | None = None) -> ChainReading:
    verifier = ChainVerifier(expected)
    for record in records:
        verifier.add(record)
    return verifier.read_result()


def test_the_format_is_the_documented_one() -> None:
    record = {"seq": 1, "at_ns": 5, "kind": "change", "user": "zoë", "previous": GENESIS}
    text = '{"at_ns":5,"kind":"change","seq":1,"user":"zo\\u00eb"}'
    assert write_canonical(record) == text
    assert compute_hash(GENESIS, text) == hashlib.sha256((GENESIS + text).encode()).hexdigest()


def test_a_whole_log_holds_and_names_its_head() -> None:
    records = make_chain(5)
    found = read(records)
    assert (found.fault, found.is_whole, found.records) == (None, True, 5)
    assert (found.head.seq, found.head.hash) == (5, records[-1]["hash"])
    assert (found.first_ns, found.last_ns) == (10, 50)


def test_an_empty_log_holds() -> None:
    found = read([])
    assert (found.records, found.head.seq, found.is_whole, found.fault) == (0, 0, True, None)


@pytest.mark.parametrize(
    ("change", "seq"),
    [
        ({"user": "eve"}, 3),
        ({"at_ns": 31}, 3),
        ({"extra": 1}, 3),
        ({"hash": "0" * 64}, 3),
        ({"previous": "0" * 64}, 3),
        ({"seq": 4}, 3),
        ({"seq": None}, 3),
    ],
)
def test_a_changed_record_is_found_at_its_number(change: dict[str, Any], seq: int) -> None:
    records = make_chain(5)
    records[2] |= change
    found = read(records)
    assert found.fault is not None
    assert (found.fault.seq, found.records) == (seq, 2)


def test_a_rewritten_record_breaks_the_one_behind_it() -> None:
    records = make_chain(5)
    forged = {**records[2], "user": "eve"}
    records[2] = {**forged, "hash": compute_hash(forged["previous"], write_canonical(forged))}
    fault = read(records).fault
    assert fault is not None
    assert fault.seq == 4


def test_a_missing_record_is_found() -> None:
    records = make_chain(5)
    del records[2]
    fault = read(records).fault
    assert fault is not None
    assert fault.seq == 3
    assert "follows record 2" in fault.reason


def test_a_cut_tail_is_found_by_a_head_that_was_noted() -> None:
    records = make_chain(5)
    assert read(records, records[3]["hash"]).expected_seq == 4
    cut = read(records[:3], records[3]["hash"])
    assert (cut.fault, cut.expected_seq) == (None, None)


def test_a_cut_begin_is_whole_only_with_its_checkpoint() -> None:
    records = make_chain(5)
    kept = records[2:]
    assert not read(kept).is_whole
    assert read(kept).fault is None
    data = {"cut_seq": 2, "cut_hash": records[1]["hash"]}
    attested = list(kept)
    add_record(attested, kind="checkpoint", data=data)
    assert read(attested).is_whole
    wrong = list(kept)
    add_record(wrong, kind="checkpoint", data={**data, "cut_hash": records[0]["hash"]})
    assert not read(wrong).is_whole


def test_lost_refusals_are_summed() -> None:
    records = make_chain(2)
    add_record(records, kind="gap", data={"lost": 7})
    add_record(records, kind="gap", data={"lost": 5})
    assert read(records).lost_refusals == 12


def test_nothing_is_read_behind_a_fault() -> None:
    records = make_chain(3)
    verifier = ChainVerifier()
    assert verifier.add(records[0])
    verifier.reject("line 2 is no record")
    assert not verifier.add(records[1])
    fault = verifier.read_result().fault
    assert fault is not None
    assert (fault.seq, fault.reason) == (2, "line 2 is no record")
