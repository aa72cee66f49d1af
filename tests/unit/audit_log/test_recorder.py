"""The writer of refusals: merges, is bounded, and says what it lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.audit_log.recorder import MOST_OF_SOURCE, MOST_WAITING, ActRecorder
from gpupool.store.acts import AuditEntry
from gpupool.store.database import Store, connect, open_store, sqlite_url
from gpupool.store.tables import audit_records
from tests.support.empty_databases import prepare_copy


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    engine = connect(sqlite_url(tmp_path / "gpupool.db"))
    prepare_copy(engine, 1, "p-test")
    store = open_store(engine, "here")
    yield store
    store.close()


def refusal(user: str, thing: str = "x") -> AuditEntry:
    facts = {"kind": "refusal", "user": user, "source": "192.0.2.1", "objects": [thing]}
    return AuditEntry(facts, 1)


def records(store: Store) -> list[dict[str, Any]]:
    with store.read() as connection:
        rows = connection.execute(sa.select(audit_records.c.body).order_by(audit_records.c.seq))
        return [json.loads(row.body) for row in rows]


def test_equal_refusals_are_one_record_with_their_number(store: Store) -> None:
    recorder = ActRecorder(store)
    for _ in range(7):
        recorder.add(refusal("eve"))
    recorder.add(refusal("bob"))
    assert recorder.flush()
    assert [(one["user"], one["times"]) for one in records(store)] == [("eve", 7), ("bob", 1)]
    assert records(store)[0]["data"]["first_ns"] <= records(store)[0]["at_ns"]
    assert recorder.flush()
    assert len(records(store)) == 2


def test_what_one_source_sends_beyond_its_part_is_counted_and_said(store: Store) -> None:
    recorder = ActRecorder(store)
    for number in range(MOST_OF_SOURCE + 30):
        recorder.add(refusal("eve", f"j-{number}"))
    recorder.add(refusal("bob"))
    recorder.flush()
    found = records(store)
    assert [one["user"] for one in found[:-1]] == ["eve"] * MOST_OF_SOURCE + ["bob"]
    assert (found[-1]["kind"], found[-1]["data"]) == ("gap", {"lost": 30})


def test_all_sources_together_are_bounded(store: Store) -> None:
    recorder = ActRecorder(store)
    for number in range(MOST_WAITING + 5):
        recorder.add(refusal(f"u-{number}"))
    recorder.flush()
    found = records(store)
    assert len(found) == MOST_WAITING + 1
    assert found[-1]["data"] == {"lost": 5}


def test_a_write_that_fails_loses_nothing(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    recorder = ActRecorder(store)
    recorder.add(refusal("eve"))
    store.take("another")
    store._holder = "not this one"
    assert not recorder.flush()
    assert "1 audit records wait" in caplog.text
    recorder.add(refusal("eve"))
    recorder.add(refusal("bob"))
    store.take("here")
    assert recorder.flush()
    assert [(one["user"], one["times"]) for one in records(store)] == [("eve", 2), ("bob", 1)]


def test_the_thread_writes_and_close_writes_the_rest(store: Store) -> None:
    recorder = ActRecorder(store)
    recorder.start()
    recorder.add(refusal("eve"))
    recorder.close()
    recorder.close()
    assert [one["user"] for one in records(store)] == ["eve"]
