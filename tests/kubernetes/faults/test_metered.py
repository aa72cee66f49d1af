"""The meter is killed at each of its writes, answers get lost, the server dies: every second is
counted, and once."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.kubernetes.ledger import billing_intervals, ledger
from gpupool.kubernetes.manifests import install
from gpupool.kubernetes.resources import names
from tests.support.cluster.cluster import Cluster
from tests.support.cluster_books import PAGES, Books, Written
from tests.support.cluster_pool import ClusterPool
from tests.support.kube_faults.agents import Agents
from tests.support.kube_faults.doors import ANY, Door, Doors, Trap
from tests.support.kube_faults.replicas import Replica, Replicas, doors_of

PREFIX = "metered"
LIMIT_SECONDS = 60.0
NO_MORE_SECONDS = 2.0
"""A meter that has told everything writes nothing more: so long it is watched."""
SEED = 20261122
KILLS = 5
NODES = 32
_numbers = itertools.count()
"""Of nodes: none is used by two tests."""


class Rig:
    """A cluster's ledgers, the server that keeps the books, and a meter with a door to each of
    both."""

    def __init__(self, pool: ClusterPool, books: Books, replicas: Replicas, doors: Doors) -> None:
        self.pool, self.books, self._replicas = pool, books, replicas
        self.written = self.node()
        self.door = doors.door()
        self.meter = self._make()

    def _make(self) -> Replica:
        return self._replicas.make("--server", self.door.url, "--token-file", str(self.books.token))

    def node(self) -> Written:
        """Another one, adopted, of which nothing was ever held."""
        number = next(_numbers)
        name = f"{PREFIX}-{number:05d}"
        self.pool.adopt([name], 4)
        return Written(self.pool, name, random.Random(SEED + number))

    def anew(self) -> None:
        """The meter is dead, or dies now; another one comes."""
        self.set(None)
        self.meter.bury()
        self.meter = self._make()

    @property
    def doors(self) -> tuple[Door, Door]:
        return self.meter.door, self.door

    def set(self, trap: Trap | None) -> None:
        for door in self.doors:
            door.set(trap)

    def has_sprung(self, trap: Trap) -> bool:
        """Until the trap has sprung, or all is told and no write is left that it might spring
        at."""
        self.pool.until(
            lambda: trap.sprung.is_set() or self.written.is_told(), self.said("sprung, or told")
        )
        return trap.sprung.wait(NO_MORE_SECONDS)

    def settle(self) -> None:
        """Nothing is held any more, all is told, and the books say what the ledger said."""
        self.written.write(())
        self.pool.until(self.written.is_told, self.said("all is in the books"), LIMIT_SECONDS)
        assert self.books.milliseconds(self.written) == self.written.milliseconds()

    def said(self, what: str) -> str:
        return f"{what}\n{self._replicas.log.read_text()[-3000:] if self._replicas.log.exists() else ''}"


@pytest.fixture(scope="module")
def agents(cluster: Cluster) -> Agents:
    return Agents(cluster.admin(), SEED)


@pytest.fixture(scope="module")
def pool(
    cluster: Cluster, agents: Agents, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusterPool]:
    with ClusterPool(cluster, tmp_path_factory.mktemp("metered"), agents) as made:
        cluster.simulate_nodes(NODES, prefix=PREFIX)
        yield made


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Books]:
    with Books(tmp_path_factory.mktemp("books")) as made:
        yield made


@pytest.fixture
def rig(cluster: Cluster, pool: ClusterPool, books: Books, tmp_path: Path) -> Iterator[Rig]:
    pool.forget_ledgers()
    pool.admin.delete(PAGES)
    with doors_of(cluster) as doors, Doors(books.url) as server_doors:
        made = Rig(pool, books, Replicas(pool, doors, tmp_path, install.METER), server_doors)
        yield made
        made.meter.bury()


@pytest.fixture
def _small_ledgers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal begins after a few ends."""
    monkeypatch.setattr(billing_intervals, "MOST_ENDED", 4)


def pages(rig: Rig) -> list[str]:
    return [page["metadata"]["name"] for page in rig.pool.admin.get(PAGES)["items"]]


def lives(rig: Rig) -> None:
    """Pods come and go faster than the meter looks: what ended is in the ledger, and in pages of
    its journal."""
    for _ in range(5):
        rig.written.others(3)


@pytest.mark.usefixtures("_small_ledgers")
@pytest.mark.parametrize(
    ("dies", "after"),
    [
        pytest.param(True, False, id="the meter dies before it is done"),
        pytest.param(False, True, id="the answer is lost when it is done"),
        pytest.param(True, True, id="the meter dies when it is done", marks=pytest.mark.nightly),
        pytest.param(
            False, False, id="the answer is lost before it is done", marks=pytest.mark.nightly
        ),
    ],
)
def test_whatever_write_is_cut_off_every_second_is_counted_and_once(
    rig: Rig, dies: bool, after: bool
) -> None:
    written, number = 0, 1
    while True:
        trap = Trap(ANY, (lambda: rig.meter.kill()) if dies else _nothing, number, after)
        rig.set(trap)
        lives(rig)
        if not rig.has_sprung(trap):
            break
        written = number
        if dies:
            rig.written.others(2)
            rig.anew()
        rig.settle()
        number += 1
    rig.set(None)
    rig.settle()
    assert written >= 8, "three pages told and deleted, the ledger told and noted"


def _nothing() -> None:
    pass


@pytest.mark.usefixtures("_small_ledgers")
@pytest.mark.parametrize("after", [False, True], ids=["before it is done", "when it is done"])
def test_a_node_that_goes_while_the_meter_dies_ends_in_the_books(rig: Rig, after: bool) -> None:
    rig.written.others(3)
    rig.written.write(())
    rig.pool.until(rig.written.is_told, rig.said("it is told"))
    stays = rig.node().name
    rig.pool.until(lambda: states(rig, stays) == {"adopted"}, rig.said("another is told"))
    trap = Trap("end", lambda: rig.meter.kill(), after=after)
    rig.set(trap)
    rig.pool.admin.delete(f"{ledger.NODES}/{rig.written.name}")
    assert trap.sprung.wait(LIMIT_SECONDS), rig.said(f"its end is told; {rig.door.steps}")
    rig.anew()
    rig.pool.until(lambda: states(rig, rig.written.name) == {"lost"}, rig.said("it is no more"))
    rig.pool.until(lambda: states(rig, stays) == {"adopted"}, rig.said("another is told"))
    assert rig.books.milliseconds(rig.written) == rig.written.milliseconds()


def states(rig: Rig, node: str) -> set[str]:
    return {one["state"] for one in rig.books.pool.json("gpus") if one["node"] == node}


def test_a_server_that_is_killed_at_any_moment_of_a_statement_has_it_once(rig: Rig) -> None:
    """Statements of many stretches: first one that nobody disturbs, then kills while the next ones
    are taken."""
    many, cut = 40, 0
    took = _seconds_of_a_statement(rig, many)
    for part in range(KILLS):
        trap = Trap("statement", _nothing, holds=True)
        rig.door.set(trap)
        rig.written.others(many)
        assert trap.sprung.wait(LIMIT_SECONDS)
        answered = rig.door.answers["statement", 200]
        rig.door.let_pass()
        time.sleep(took * part / KILLS)  # any moment of it
        rig.books.kill()
        cut += rig.door.answers["statement", 200] == answered
        rig.written.others(5)
        rig.books.come_back()
        rig.pool.until(rig.written.is_told, rig.said("all is in the books"), LIMIT_SECONDS)
        rig.door.hold_again()
    rig.settle()
    assert cut, "no kill met a statement"


def _seconds_of_a_statement(rig: Rig, many: int) -> float:
    trap = Trap("statement", _nothing, holds=True)
    rig.written.others(many)
    rig.written.others(many)
    rig.pool.until(rig.written.is_told, rig.said("all is in the books"), LIMIT_SECONDS)
    rig.door.set(trap)
    rig.written.others(many)
    assert trap.sprung.wait(LIMIT_SECONDS)
    answered, began = rig.door.answers["statement", 200], time.monotonic()
    rig.door.let_pass()
    rig.pool.until(
        lambda: rig.door.answers["statement", 200] > answered,
        rig.said("it is answered"),
        every=0.005,
    )
    rig.door.hold_again()
    return time.monotonic() - began


@pytest.mark.usefixtures("_small_ledgers")
@pytest.mark.parametrize("after", [False, True], ids=["before it is taken", "when it is taken"])
def test_what_ends_while_a_page_of_the_journal_is_told_comes_after_it(
    rig: Rig, after: bool
) -> None:
    for number in (1, 2, 3):
        trap = Trap("statement", _nothing, number, after, holds=True)
        rig.set(trap)
        lives(rig)
        assert trap.sprung.wait(LIMIT_SECONDS), rig.said("pages are told")
        before = pages(rig)
        lives(rig)
        assert len(pages(rig)) > len(before) > 0
        rig.door.let_pass()
        rig.settle()
        rig.door.hold_again()


def test_a_server_that_was_away_hears_each_page_of_the_journal_by_itself(rig: Rig) -> None:
    """A statement has a limit, and a server may be away for any number of pages."""
    rig.books.kill()
    for _ in range(6):
        rig.written.others(billing_intervals.MOST_ENDED - 20)
    kept, answered = len(pages(rig)), rig.door.answers["statement", 200]
    assert kept >= 3
    rig.books.come_back()
    rig.pool.until(rig.written.is_told, rig.said("all is in the books"), 2 * LIMIT_SECONDS)
    assert rig.door.answers["statement", 200] == answered + kept + 1
    rig.settle()


@pytest.mark.usefixtures("_small_ledgers")
def test_pages_of_a_ledger_that_was_deleted_while_nobody_looked_are_told_and_go(rig: Rig) -> None:
    rig.written.others(3)
    rig.pool.until(
        lambda: states(rig, rig.written.name) == {"adopted"}, rig.said("the meter tells")
    )
    rig.meter.kill()
    lives(rig)
    kept = rig.written.node
    assert pages(rig)
    given_up = {
        "metadata": {"annotations": {names.GIVEN_UP: "true"}}
    }  # a policy keeps ledgers that hold something
    rig.pool.admin.merge(f"{ledger.NODES}/{kept.name}", given_up)
    rig.pool.admin.delete(f"{ledger.NODES}/{kept.name}")
    rig.anew()
    rig.pool.until(lambda: not pages(rig), rig.said("pages are told"))
    lost = {(one.uid, one.held_ns) for one in kept.ended}
    for key in lost:
        del rig.written.over[key]
    rig.pool.until(lambda: states(rig, kept.name) == {"lost"}, rig.said("it is no more"))
    assert rig.books.milliseconds(rig.written) == rig.written.milliseconds()


def test_the_books_go_on_from_the_older_copy_that_the_cluster_was_put_back_to(
    cluster: Cluster, agents: Agents, rig: Rig
) -> None:
    """What was held since is in them and stays there; and nothing waits until the ledger is as old
    again."""
    first = rig.written.others(3)
    rig.pool.until(rig.written.is_told, rig.said("it is told"))
    cluster.copy_store()
    rig.pool.admin.close()
    for _ in range(3):
        lives(rig)
    last = rig.written.write(())
    rig.pool.until(rig.written.is_told, rig.said("it is told"))
    told = dict(rig.written.over)
    put_back(cluster, agents, rig)
    rig.written.over = {}
    lives(rig)
    assert {entry.uid for entry in first.entries} <= {uid for uid, _ in rig.written.over}, (
        "they were held once more"
    )
    rig.written.write(())
    rig.pool.until(rig.written.is_told, rig.said("all is in the books"), LIMIT_SECONDS)
    assert rig.written.node.version < last.version
    rig.written.over |= (
        told  # who was held once more ended before that, by the instants of this test
    )
    assert rig.books.milliseconds(rig.written) == rig.written.milliseconds()


def put_back(cluster: Cluster, agents: Agents, rig: Rig) -> None:
    agents.kill()
    cluster.restore_store()
    rig.pool.admin.close()
    for name in agents.names:
        agents.forget(name)
    agents.revive()
