"""A change anywhere in the bytes of an exported audit log is found at its record."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gpupool.store.acts import AuditEntry, build_rows
from gpupool.wire.audit.chain import ChainHead, ChainVerifier

TEXT = st.text(max_size=12)
FACTS = st.fixed_dictionaries(
    {"kind": st.sampled_from(["change", "refusal", "login"])},
    optional={
        "user": st.none() | TEXT,
        "objects": st.lists(TEXT, max_size=3),
        "status": st.integers(200, 599),
        "changes": st.dictionaries(TEXT, st.integers() | st.booleans() | TEXT, max_size=3),
    },
)
#: Batches of records, as transactions write them.
HISTORY = st.lists(st.lists(FACTS, min_size=1, max_size=4), min_size=1, max_size=5)


def export(history: list[list[dict[str, Any]]]) -> list[str]:
    """Write the history through the store's own rows to the lines of a file."""
    head = ChainHead()
    lines = []
    for number, batch in enumerate(history):
        rows, head = build_rows([AuditEntry(facts) for facts in batch], head, number)
        for row in rows:
            record = json.loads(row["body"])
            record |= {"previous": row["previous"], "hash": row["hash"]}
            lines.append(json.dumps(record, sort_keys=True, separators=(",", ":")))
    return lines


def find_fault(lines: list[str]) -> int | None:
    verifier = ChainVerifier()
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            verifier.reject("no record")
            break
        if not isinstance(record, dict) or not verifier.add(record):
            break
    fault = verifier.read_result().fault
    return None if fault is None else fault.seq


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(HISTORY, st.data())
def test_one_changed_byte_is_found_at_its_record(
    history: list[list[dict[str, Any]]], data: st.DataObject
) -> None:
    lines = export(history)
    assert find_fault(lines) is None
    which = data.draw(st.integers(0, len(lines) - 1))
    raw = bytearray(lines[which].encode())
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] = data.draw(st.integers(32, 126))
    changed = raw.decode()
    try:
        # Another spelling of the same record, as \\u00E9 for \\u00e9, is no change.
        is_same = json.loads(changed) == json.loads(lines[which])
    except ValueError:
        is_same = False
    assume(not is_same)
    assert find_fault([*lines[:which], changed, *lines[which + 1 :]]) == which + 1


@settings(max_examples=15, deadline=None)
@given(HISTORY, st.data())
def test_a_record_that_is_taken_out_is_found(
    history: list[list[dict[str, Any]]], data: st.DataObject
) -> None:
    lines = export(history)
    assume(len(lines) > 1)
    which = data.draw(st.integers(0, len(lines) - 2))
    found = find_fault([*lines[:which], *lines[which + 1 :]])
    # Without its first record a file is the export of a later time; `is_whole` says so.
    assert found == (None if which == 0 else which + 1)
