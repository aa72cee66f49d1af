"""One open write: its events are numbered at the commit, its answer is what a repetition gets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from gpupool.store.idempotency import UNANSWERED
from gpupool.store.tables import events, metadata, pool
from gpupool.store.write_transaction import WriteTransaction, finish_write

NOW_NS = 1_700_000_000 * 10**9


@pytest.fixture
def write() -> Iterator[WriteTransaction]:
    engine = sa.create_engine("sqlite://")
    metadata.create_all(engine, [pool, events])
    row = {"id": 1, "pool_id": "p", "holder": "", "event_seq": 7, "generation": 3, "ledger_ns": 0}
    with engine.begin() as connection:
        connection.execute(pool.insert(), row)
        yield WriteTransaction(connection, NOW_NS, 3)
    engine.dispose()


def read_pool(write: WriteTransaction) -> tuple[int, int, int]:
    row = write.execute(sa.select(pool)).one()
    return row.event_seq, row.generation, row.ledger_ns


def test_events_are_numbered_after_the_last_in_the_order_of_the_calls(
    write: WriteTransaction,
) -> None:
    write.event("job.submitted", "j-1", tenant_id=2, data={"name": "a"})
    write.event("job.placed", "j-1")
    finish_write(write, 7)
    rows = write.execute(sa.select(events).order_by(events.c.seq)).all()
    assert [(row.seq, row.kind, row.tenant_id, row.data) for row in rows] == [
        (8, "job.submitted", 2, {"name": "a"}),
        (9, "job.placed", None, {}),
    ]
    assert {row.at_ns for row in rows} == {NOW_NS}
    assert read_pool(write) == (9, 3, NOW_NS)


def test_the_generation_grows_once_where_the_ledger_was_touched(write: WriteTransaction) -> None:
    assert [write.touch_ledger(), write.touch_ledger()] == [4, 4]
    finish_write(write, 7)
    assert read_pool(write) == (7, 4, NOW_NS)


def test_subjects_are_kinds_of_events_and_first_words_of_topics(write: WriteTransaction) -> None:
    write.event("job.placed", "j-1")
    write.announce("queue", ("job", "j-1"), ("node", "node-1"))
    assert write.subjects() == {"job.placed", "queue", "job", "node"}


def test_the_answer_of_a_repetition_has_the_body_and_the_etag(write: WriteTransaction) -> None:
    write.answer(201, {"name": "a"}, generation=4)
    assert write._answer is not None
    assert (write._answer.status, write._answer.response) == (
        201,
        {"body": {"name": "a"}, "etag": '"4"'},
    )
    write.answer(204, None)
    assert write._answer.response == {"body": None}


def test_an_answer_with_a_secret_names_only_what_was_made(write: WriteTransaction) -> None:
    write.answer(201, {"token": "gpp_secret"})
    write.answer_once("token t-1")
    assert write._answer is not None
    assert (write._answer.status, write._answer.response) == (UNANSWERED, {"made": "token t-1"})


def test_insert_returns_the_key_that_the_row_got(write: WriteTransaction) -> None:
    table = sa.Table(
        "numbered",
        sa.MetaData(),
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("n", sa.Integer),
    )
    table.create(write.connection)
    assert [write.insert(table, n=value) for value in (5, 5)] == [1, 2]
