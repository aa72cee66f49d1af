"""What is killed and when: the rows of the failure table, each a method that kills and mends."""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Callable

from gpupool.kubernetes.ledger import ledger
from tests.support.cluster_pool import ClusterPool
from tests.support.kube_faults.agents import Agents
from tests.support.kube_faults.doors import ANY, Trap
from tests.support.kube_faults.load import Load
from tests.support.kube_faults.replicas import Standing

TRAP_SECONDS = 2.5
"""A trap that has not sprung by then meets no such write: the part is killed where it is."""
NUDGE_SECONDS = 0.3
FAR = 6
"""The furthest write of a kind, counted from the start of a round, at which something dies."""


ROWS = {
    "controller before a ledger is written": 14,
    "controller after a ledger was written": 14,
    "controller before a release": 12,
    "controller after a release": 12,
    "controller before an eviction": 5,
    "controller after an eviction": 5,
    "controller at any write": 10,
    "answer of a write lost": 6,
    "two leaders": 6,
    "webhook": 2,
    "kube-scheduler": 4,
    "API server": 2,
    "etcd": 2,
    "etcd restored from an older copy": 1,
    "API server and controller": 1,
    "agents": 4,
    "node": 1,
}
"""Parts of a hundred rounds of a long campaign: what is mended fast comes more often."""


class Rows:
    """Everything that can be killed. `sprung` counts kills at an exact write."""

    def __init__(
        self,
        pool: ClusterPool,
        agents: Agents,
        standing: Standing,
        load: Load,
        chance: random.Random,
    ) -> None:
        self._pool, self._agents, self._standing, self._load, self._chance = (
            pool,
            agents,
            standing,
            load,
            chance,
        )
        self._cards = sum(len(one) for one in pool.cards().values())
        self.sprung = 0
        self._table: dict[str, Callable[[], None]] = {
            "controller before a ledger is written": lambda: self._controller(
                "ledger", after=False
            ),
            "controller after a ledger was written": lambda: self._controller("ledger", after=True),
            "controller before a release": lambda: self._controller("release", after=False),
            "controller after a release": lambda: self._controller("release", after=True),
            "controller before an eviction": lambda: self._evicting(after=False),
            "controller after an eviction": lambda: self._evicting(after=True),
            "controller at any write": lambda: self._controller(ANY, after=self._either()),
            "answer of a write lost": self._answer_lost,
            "two leaders": self._two_leaders,
            "webhook": self._webhook,
            "kube-scheduler": lambda: self._plane("kube-scheduler"),
            "API server": lambda: self._plane("kube-apiserver"),
            "etcd": lambda: self._plane("etcd"),
            "etcd restored from an older copy": self._restored,
            "API server and controller": self._plane_and_controller,
            "agents": self._agents_away,
            "node": self._node_lost,
        }
        assert self._table.keys() == ROWS.keys()

    def kill(self, row: str) -> None:
        """Load, a kill in the middle of it, and what was killed is there again."""
        self._table[row]()

    def _either(self) -> bool:
        return self._chance.random() < 0.5

    # --- the controller -----------------------------------------------------------------------

    def _controller(self, kind: str, *, after: bool, far: int = FAR) -> None:
        trap = Trap(kind, self._standing.now.kill, self._chance.randint(1, far), after)
        self._standing.now.door.set(trap)
        self._load.step(6)
        self._await(trap)
        self._standing.now.kill()
        self._load.step(1)
        self._standing.replace()

    def _evicting(self, *, after: bool) -> None:
        """Pods of high priority where cards are held by what gives way."""
        trap = Trap("eviction", self._standing.now.kill, self._chance.randint(1, 2), after)
        self._standing.now.door.set(trap)
        self._load.press(self._cards, trap.sprung.is_set)
        self._await(trap)
        self._standing.replace()

    def _answer_lost(self) -> None:
        trap = Trap(ANY, lambda: None, self._chance.randint(1, FAR), after=True)
        self._standing.now.door.set(trap)
        self._load.step(6)
        self._await(trap)
        self._standing.now.door.set(None)

    def _two_leaders(self) -> None:
        """Both work for a while, then one dies in the middle of a write."""
        second = self._standing.beside()
        self._load.step(6)
        trap = Trap(ANY, self._standing.now.kill, self._chance.randint(1, FAR), self._either())
        self._standing.now.door.set(trap)
        self._load.step(6)
        self._await(trap)
        self._standing.take(second)

    def _await(self, trap: Trap) -> None:
        """Until it has sprung, with a little more to do from time to time."""
        deadline = time.monotonic() + TRAP_SECONDS
        while not trap.sprung.wait(NUDGE_SECONDS) and time.monotonic() < deadline:
            self._load.step(1)
        self.sprung += trap.sprung.is_set()

    # --- the others ---------------------------------------------------------------------------

    def _webhook(self) -> None:
        """Who asks is refused and asks again; nothing that is there is touched."""
        self._load.step()
        self._pool.kill_webhook()
        self._load.step()
        self._pool.begin_webhook()
        self._load.step()

    def _plane(self, name: str) -> None:
        self._load.step(6)
        self._pool.cluster.processes.kill(name)
        if name == "kube-scheduler":
            self._load.step()
        self._pool.cluster.up(_silent)
        self._load.reconnect()
        self._load.step()

    def _restored(self) -> None:
        """What was done since the copy is gone, and what ran on the nodes by it; the controller
        lives through it."""
        self._load.step(3)
        kept = copy.deepcopy(self._load.gangs)
        self._pool.cluster.copy_store()
        self._load.reconnect()
        trap = Trap("release", lambda: None, self._chance.randint(1, FAR), after=True)
        self._standing.now.door.set(trap)
        self._load.step(6)
        self._await(trap)
        self._agents.kill()
        self._pool.cluster.restore_store()
        for name in self._agents.names:
            self._agents.forget(name)
        self._load.gangs = kept
        self._load.reconnect()
        self._standing.now.door.set(None)
        self._agents.revive()
        self._load.step()

    def _plane_and_controller(self) -> None:
        self._load.step(6)
        self._pool.cluster.processes.kill("kube-apiserver")
        self._standing.now.kill()
        self._standing.replace()
        self._pool.cluster.up(_silent)
        self._load.reconnect()
        self._load.step()

    def _agents_away(self) -> None:
        """Meanwhile nothing that runs becomes free; half of the time a controller dies as well."""
        self._agents.kill()
        self._load.step(6)
        if self._either():
            self._controller("ledger", after=True, far=3)
        self._agents.revive()

    def _node_lost(self) -> None:
        """A node goes with all that runs on it, and later comes back empty."""
        name = self._chance.choice(sorted(self._agents.names))
        trap = Trap("ledger", self._standing.now.kill, 1, self._either())
        self._agents.names.discard(name)
        self._standing.now.door.set(trap)
        admin = self._pool.admin
        admin.delete(f"/api/v1/nodes/{name}")
        self._load.lose(name)
        admin.until_gone(f"{ledger.NODES}/{name}")
        self._await(trap)
        self._standing.replace()
        self._agents.forget(name)
        self._pool.cluster.simulate_nodes(
            len(self._agents.names) + 1, prefix=name.rsplit("-", 1)[0]
        )
        self._pool.adopt([name])


def _silent(_: str) -> None:
    """The rig's own words are of no interest here."""
