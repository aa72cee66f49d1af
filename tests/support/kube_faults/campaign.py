"""Rounds: load, a kill in the middle of it, calm, and every truth checked. Every so many rounds all
pods end.

`run_campaign` raises `Broken` with the seed and every broken truth; else it returns what was done.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.resources.gpu_node import GpuNode
from gpupool.kubernetes.resources.pod import read_pod
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.directory import ClusterError
from tests.support.cluster_pool import POLL_SECONDS, ClusterPool
from tests.support.kube_faults import truths
from tests.support.kube_faults.agents import Agents
from tests.support.kube_faults.load import Load
from tests.support.kube_faults.replicas import Replicas, Standing, doors_of
from tests.support.kube_faults.rows import Rows

NODES, CARDS = 2, 4
CALM_SECONDS = 120.0
"""A gang whose writer died half-way and whose other seats are taken is given up after a minute."""
DRAIN_EVERY = 10
NAMESPACE = "faults"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


@dataclass
class Counts:
    """What a campaign did."""

    rounds: Counter[str] = field(default_factory=Counter)
    """By row."""
    sprung: int = 0
    """Kills at an exact write."""
    pods: Counter[str] = field(default_factory=Counter)
    deleted: Counter[str] = field(default_factory=Counter)
    drained: int = 0
    """Times that every pod got its cards, ended, and left every ledger empty."""
    slowest_calm: float = 0.0
    seconds: float = 0.0

    def add(self, other: Counts) -> None:
        self.rounds += other.rounds
        self.pods += other.pods
        self.deleted += other.deleted
        self.sprung += other.sprung
        self.drained += other.drained
        self.slowest_calm = max(self.slowest_calm, other.slowest_calm)
        self.seconds += other.seconds

    def __str__(self) -> str:
        made = sum(self.pods.values()) - self.pods["refused"]
        return (
            f"{sum(self.rounds.values())} rounds in {self.seconds:.0f} s, {self.sprung} kills at an exact write; "
            f"{made} pods made, {self.pods['refused']} refused, {sum(self.deleted.values())} deleted; all pods ended "
            f"{self.drained} times; calm after {self.slowest_calm:.1f} s at most"
        )


class Broken(AssertionError):
    """A truth did not hold; `counts` is what had been done until then."""

    def __init__(self, said: str, counts: Counts) -> None:
        super().__init__(said)
        self.counts = counts


class Campaign:
    """One pool on one control plane. `with Campaign(…) as one: one.round(row)`."""

    def __init__(self, cluster: Cluster, place: Path, seed: int) -> None:
        self.seed, self.counts = seed, Counts()
        self._direct = seed % 2 == 1
        """Every other one has the controller bind what has nothing but cards to place."""
        self._chance = random.Random(seed)
        self._agents = Agents(cluster.admin(), seed)
        self.pool = ClusterPool(cluster, place, self._agents)
        self._doors = doors_of(cluster)
        self.load = Load(cluster.admin(), PODS, random.Random(seed + 1))
        self._last = ""

    def __enter__(self) -> Campaign:
        self._doors.__enter__()
        self.pool.__enter__()
        self.pool.cluster.access().namespace(NAMESPACE)
        self.pool.admin.until(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default", bool)
        self.pool.adopt(self.pool.cluster.simulate_nodes(NODES, prefix="faults"), CARDS)
        self.load.prepare()
        self._standing = Standing(
            Replicas(self.pool, self._doors, self.pool.place), direct=self._direct
        )
        self.pool.start_webhook("native")
        self.rows = Rows(self.pool, self._agents, self._standing, self.load, self._chance)
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.admin.close()
        self.pool.admin.delete(f"{PODS}?gracePeriodSeconds=0")
        self._standing.end()
        self.pool.__exit__()
        self._doors.__exit__()
        self.pool.admin.delete(f"/api/v1/namespaces/{NAMESPACE}")

    def round(self, row: str) -> None:
        """Raises Broken."""
        began = time.monotonic()
        self._last = row
        try:
            self.rows.kill(row)
        except ClusterError as error:
            self._check(False, [f"never: {error}"])
        self.pool.admin.close()
        self.calm()
        self.counts.rounds[row] += 1
        self.counts.sprung, self.counts.pods, self.counts.deleted = (
            self.rows.sprung,
            self.load.made,
            self.load.deleted,
        )
        self.counts.seconds += time.monotonic() - began

    def calm(self) -> None:
        """Until everything is true at once."""
        began = time.monotonic()
        self._until(self._broken, "calm")
        self.counts.slowest_calm = max(self.counts.slowest_calm, time.monotonic() - began)

    def drain(self) -> None:
        """As pods end everybody who waits gets cards, in the end nobody is there and no card is
        held."""
        began = time.monotonic()
        self._last = f"{self._last}, then the end of all pods"
        self._until(self._ended, "every pod has had its cards")
        self.load.gangs.clear()
        self._until(
            lambda: [f"{n}: {es}" for n, es in self.pool.entries().items() if es],
            "every ledger empty",
        )
        self.counts.drained += 1
        self.counts.seconds += time.monotonic() - began

    def _ended(self) -> list[str]:
        """Who is still there, after those that run were ended; a gang as soon as it runs, who waits
        for it first."""
        self.load.complete()
        there = self.load.pods()
        bound = {one["metadata"]["name"] for one in there if one["spec"].get("nodeName")}
        for gang in [
            gang for gang in self.load.gangs.values() if len(gang.members & bound) >= gang.minimum
        ]:
            for name in sorted(gang.members, key=lambda name: name in bound):
                self.load.delete_quietly(name)
            del self.load.gangs[gang.name]
        for one in there:
            name = one["metadata"]["name"]
            if (
                name in bound
                and self.load.gang_of(name) is None
                and not one["metadata"].get("deletionTimestamp")
            ):
                self.load.delete_quietly(name)
        return [f"{one['metadata']['name']}: {one['status'].get('conditions')}" for one in there]

    def _broken(self) -> list[str]:
        pods = [read_pod(one) for one in self.load.pods()]
        nodes = [GpuNode.from_json(one) for one in self.pool.admin.get(ledger.NODES)["items"]]
        whole = {
            f"{NAMESPACE}/{one.name}": one.minimum
            for one in self.load.gangs.values()
            if not one.touched
        }
        return truths.broken(pods, nodes, whole)

    def _until(self, look: Callable[[], list[str]], what: str) -> None:
        deadline = time.monotonic() + CALM_SECONDS
        while found := look():
            self._check(time.monotonic() < deadline, [f"never: {what}", *found])
            time.sleep(POLL_SECONDS)  # between two looks from outside
        self._check(not self._agents.broken, self._agents.broken)

    def _check(self, holds: bool, found: list[str]) -> None:
        if not holds or not self._standing.lives:
            said = "\n".join(found if not holds else ["the controller has ended by itself", *found])
            raise Broken(
                f"{self.pool.log()}\n---\nseed {self.seed}, {self.counts}, at: {self._last}\n{said}",
                self.counts,
            )


def run_campaign(
    cluster: Cluster,
    place: Path,
    seed: int,
    rounds: int,
    parts: Mapping[str, int],
    until: float = math.inf,
    told: Callable[[str], None] = lambda _: None,
) -> Counts:
    """`parts` are how often each row comes; rows and everything else at random, by the seed. No
    round begins after `until`, a monotonic time. `told` hears how far it is."""
    chance = random.Random(seed)
    with Campaign(cluster, place, seed) as one:
        for number in range(rounds):
            if time.monotonic() > until:
                break
            (row,) = chance.choices([*parts], [*parts.values()])
            one.round(row)
            if number % DRAIN_EVERY == DRAIN_EVERY - 1:
                one.drain()
                told(str(one.counts))
        one.drain()
        return one.counts
