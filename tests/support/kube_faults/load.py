"""Pods as people make and unmake them, at random: shares, whole cards, several containers, gangs
member by member, pods that give way and pods for which they do; deleted while they wait, while they
go and while they run."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from gpupool.dialects.kubernetes import native
from tests.support.cluster.api import Api, NotAnsweredError, Object, RefusedError
from tests.support.cluster.waiting import wait_until

GIB = "4Gi"
LOW, HIGH = "gpupool-faults-low", "gpupool-faults-high"
GANG_SIZE = 3
KINDS = {"share": 30, "two": 8, "both": 10, "whole": 10, "low": 16, "high": 8, "gang": 18}
"""Parts of a hundred."""
MOST = 16
"""Pods at a time: more would only wait."""
PROTECTED_SECONDS = 2.0
"""Whole seconds are told of a pod's creation; one is what the controller is told to protect."""
PRESS_SECONDS = 60.0


@dataclass
class Gang:
    """One, and which of its members are there."""

    name: str
    minimum: int
    owner: Object | None = None
    """Who makes its members again, so that their seats are kept for a while; None: nobody does."""
    members: set[str] = field(default_factory=set)
    touched: bool = False
    """A member was deleted: it need not be whole any more."""


class Load:
    """`path` is where the pods are. Whoever does not answer is asked no more, as clients do that
    are not loops."""

    def __init__(self, admin: Api, path: str, chance: random.Random) -> None:
        self._admin, self._path, self._chance = admin, path, chance
        self.gangs: dict[str, Gang] = {}
        self.made: Counter[str] = Counter()
        self.deleted: Counter[str] = Counter()
        self._number = 0
        self._owner: Object = {}

    def prepare(self) -> None:
        """The priorities that its pods have, and an owner."""
        for name, value in ((LOW, -10), (HIGH, 10)):
            made = {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
            }
            self._admin.apply(
                f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}", {**made, "value": value}
            )
        place = self._path.replace("/pods", "/configmaps")
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}}
        uid = self._admin.apply(f"{place}/owner", made)["metadata"]["uid"]
        self._owner = {**owner, "uid": uid, "controller": True}

    def pods(self) -> list[Object]:
        items: list[Object] = self._admin.get(self._path)["items"]
        return items

    def step(self, makes: int = 4) -> None:
        """A few pods more and a few less."""
        there = self.pods()
        for _ in range(min(makes, MOST - len(there))):
            self.create(self._drawn())
        for one in self._chance.sample(there, len(there) // self._chance.choice([3, 4, 8])):
            self.delete(one)

    def press(self, cards: int, over: Callable[[], bool]) -> None:
        """Cards full of pods that give way, a second old, and then pods for which they do. Some are
        kept for gangs.

        A gang that waits may have some leave before that: `over` says that nobody is there any more
        to bind the others.
        """
        for one in self.pods():
            self.delete(one, "forced")
        for _ in range(cards):
            self.create("low")
        wait_until(
            lambda: over() or self._aged() > 2,
            PRESS_SECONDS,
            lambda: "pods that give way are not bound",
        )
        for _ in range(3):
            self.create("high")

    def _aged(self) -> int:
        """Pods that give way and have run so long that they may be asked to."""
        now = datetime.now(UTC)
        low = [
            one
            for one in self.pods()
            if one["metadata"]["name"].startswith("low") and one["spec"].get("nodeName")
        ]
        made = [datetime.fromisoformat(one["metadata"]["creationTimestamp"]) for one in low]
        return sum((now - when).total_seconds() > PROTECTED_SECONDS for when in made)

    def create(self, kind: str) -> None:
        if kind == "gang":
            self._one_more_of_a_gang()
        else:
            self._number += 1
            self._send(kind, _pod(f"{kind}-{self._number}", kind, self._grace()))

    def _one_more_of_a_gang(self) -> None:
        """The next member of one that lacks some, or the first of another."""
        lacking = [gang for gang in self.gangs.values() if len(gang.members) < GANG_SIZE]
        gang = (
            self._chance.choice(lacking)
            if lacking and self._chance.random() < 0.7
            else self._new_gang()
        )
        self._member(gang)

    def _new_gang(self) -> Gang:
        self._number += 1
        owner = self._chance.choice([None, None, self._owner])
        gang = Gang(f"gang-{self._number}", self._chance.choice([2, GANG_SIZE, GANG_SIZE]), owner)
        self.gangs[gang.name] = gang
        return gang

    def _member(self, gang: Gang) -> None:
        self._number += 1
        made = _pod(f"{gang.name}-{self._number}", "gang", self._grace(), gang)
        if self._send("gang", made):
            gang.members.add(made["metadata"]["name"])

    def complete(self) -> None:
        """Every gang has all its members again, as its owner sees to."""
        for gang in self.gangs.values():
            for _ in range(GANG_SIZE - len(gang.members)):
                self._member(gang)

    def delete(self, pod: Object, how: str = "") -> None:
        """As people do, or by force; or it ends by itself, where it runs."""
        name = pod["metadata"]["name"]
        how = how or self._chance.choice(["asked", "asked", "forced", "ended"])
        if how == "ended" and not pod["spec"].get("nodeName"):
            how = "asked"
        if self._try(lambda: self._end(name, how)):
            self.deleted[how] += 1
        gang = self.gang_of(name)
        if gang is not None:
            gang.members.discard(name)
            gang.touched = True

    def _end(self, name: str, how: str) -> Object:
        if how == "ended":
            return self._admin.merge(
                f"{self._path}/{name}/status", {"status": {"phase": "Succeeded"}}
            )
        return self._admin.delete(_delete(f"{self._path}/{name}", how))

    def delete_quietly(self, name: str) -> None:
        """It has had its cards; nothing is made in its place."""
        self._try(lambda: self._admin.delete(_delete(f"{self._path}/{name}", "forced")))

    def lose(self, node: str) -> None:
        """Pods of a node that is no more, as the cluster's collector ends them.

        A gang of which somebody is not bound elsewhere may have lost a seat with the node's ledger
        as well, and then there may be no other for it.
        """
        for one in self.pods():
            at, gang = one["spec"].get("nodeName"), self.gang_of(one["metadata"]["name"])
            if gang is not None and at in (None, node):
                gang.touched = True
            if at == node:
                self.delete(one, "forced")

    def reconnect(self) -> None:
        """The old connection is of a server that died."""
        self._admin.close()

    def gang_of(self, name: str) -> Gang | None:
        return next((gang for gang in self.gangs.values() if name in gang.members), None)

    def _drawn(self) -> str:
        (kind,) = self._chance.choices([*KINDS], [*KINDS.values()])
        return kind

    def _grace(self) -> int:
        return self._chance.choice([0, 30])

    def _send(self, kind: str, made: Object) -> bool:
        sent = self._try(lambda: self._admin.create(self._path, made))
        self.made[kind if sent else "refused"] += 1
        return sent

    def _try(self, ask: Callable[[], Object]) -> bool:
        """False where nobody answers, the webhook is away, or it is gone."""
        try:
            ask()
        except NotAnsweredError:
            return False
        except RefusedError as refusal:
            if refusal.status in (404, 409, 429, 500, 503, 504):
                return False
            raise
        return True


def _delete(path: str, how: str) -> str:
    return f"{path}?gracePeriodSeconds=0" if how == "forced" else path


def _pod(name: str, kind: str, grace: int, gang: Gang | None = None) -> Object:
    """In our own words, which admission reads."""
    containers = [_container(n, kind) for n in range(2 if kind == "both" else 1)]
    notes, labels = {}, {}
    owners = [gang.owner] if gang is not None and gang.owner else []
    if gang is not None:
        labels[native.GANG] = gang.name
        notes = {
            native.GANG_SIZE: str(GANG_SIZE),
            native.GANG_MIN: str(gang.minimum),
            native.PREEMPTIBLE: "false",
        }
    if kind == "low":
        notes[native.PREEMPTIBLE] = "true"
    spec = {"containers": containers, "terminationGracePeriodSeconds": grace}
    priority = {"low": LOW, "high": HIGH}.get(kind)
    if priority:
        spec["priorityClassName"] = priority
    meta = {"name": name, "labels": labels, "annotations": notes, "ownerReferences": owners}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _container(number: int, kind: str) -> Object:
    shares = {
        "share": ("1", "200"),
        "two": ("2", "400"),
        "both": ("1", "300"),
        "gang": ("1", "600"),
    }
    cards, milli = shares.get(kind, ("1", ""))
    limits = {native.GPUS: cards}
    if milli:
        limits |= {native.MILLI: milli, native.MEMORY: GIB}
    return {
        "name": f"c{number}",
        "image": "gpupool.test/busybox:1",
        "resources": {"limits": limits},
    }
