"""A commit whose answer is lost: the copies in memory may lack what the database has."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from gpupool.base.errors import ServiceUnavailable
from gpupool.base.supervision import register
from gpupool.store.database import Store, connect, open_store
from gpupool.store.tables import events
from tests.support.cut_connections import CutConnections, cut_connections
from tests.support.empty_databases import prepare_copy


@pytest.fixture
def way(postgres_pool_url: str) -> Iterator[tuple[CutConnections, str]]:
    # The path of a socket is short, other than those of pytest's directories.
    with (
        tempfile.TemporaryDirectory(prefix="gpupool-cut-") as directory,
        cut_connections(Path(directory), postgres_pool_url) as found,
    ):
        yield found


@pytest.fixture
def store(way: tuple[CutConnections, str]) -> Iterator[Store]:
    engine = connect(way[1], busy_seconds=60)
    prepare_copy(engine, 1, "p-test")
    opened = open_store(engine, "first", busy_seconds=60)
    yield opened
    opened.close()


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names = list[str]()
    monkeypatch.setattr(register, "end_process", names.append)
    return names


def say(store: Store, subject: str, notes: list[str]) -> None:
    with store.write() as write:
        write.event("test.said", subject)
        write.note(lambda: notes.append(subject))


def read_subjects(store: Store) -> list[str]:
    with store.read() as connection:
        return list(
            connection.execute(sa.select(events.c.subject).order_by(events.c.seq)).scalars()
        )


def test_a_commit_that_is_found_carried_out_later_ends_the_process(
    way: tuple[CutConnections, str], store: Store, ended: list[str]
) -> None:
    """Before, a job of such a commit waited until the next start: no copy in memory had it."""
    notes = list[str]()
    way[0].cut_commit("after")
    with pytest.raises(ServiceUnavailable):
        say(store, "first", notes)
    with pytest.raises(ServiceUnavailable, match="without its answer"):
        say(store, "second", notes)
    assert (read_subjects(store), notes, ended) == (["first"], [], ["store"])


def test_a_commit_that_was_not_carried_out_ends_nothing(
    way: tuple[CutConnections, str], store: Store, ended: list[str]
) -> None:
    notes = list[str]()
    way[0].cut_commit("before")
    with pytest.raises(ServiceUnavailable):
        say(store, "first", notes)
    say(store, "second", notes)
    assert (read_subjects(store), notes, ended) == (["second"], ["second"], [])
