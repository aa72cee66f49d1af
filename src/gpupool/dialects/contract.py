"""What a dialect is, and the one form every dialect's words end in.

A dialect knows the words of one system (`Word`s: keys of resources, annotations, labels, environment and node
selectors) and what a pod that uses them asks for. It is pure: a pod and the known facts of the node in, a `Reading`
out, or an error of `base.errors` with the numbers. It must not know other dialects, Kubernetes' API, or the pool.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from gpupool.base.units import WHOLE, format_percent, format_share
from gpupool.model.claim import Sharing, Within

if TYPE_CHECKING:
    from gpupool.dialects.facts import NodeFacts
    from gpupool.dialects.pod import Pod

NVIDIA = "nvidia"
NO_COMPUTE = "no compute was asked for: it takes what is free and is guaranteed none"
"""The guess where a system has memory without compute."""
Part = TypeVar("Part")


class Where(StrEnum):
    """Where in a pod (or script) a word stands."""

    RESOURCE = "resource"
    ANNOTATION = "annotation"
    LABEL = "label"
    ENV = "environment"
    SELECTOR = "node selector"
    OPTION = "option"


@dataclass(frozen=True)
class Name:
    """One word of a system: the reference pages are made of these.

    `key` may hold `<names>` for what differs. A word that `stays` is left in the pod that is written; all others are
    taken out of it, because they have been said in our words.
    """

    key: str
    where: Where
    values: str
    meaning: str
    stays: bool = False

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        parts = re.split(r"<[^>]*>", self.key)
        return re.compile("[^/]+?".join(map(re.escape, parts)))

    def matches(self, key: str) -> bool:
        return self.key == key or ("<" in self.key and self.pattern.fullmatch(key) is not None)


@dataclass(frozen=True)
class Select:
    """Which cards and nodes may be taken: models and cards by name, any of them; labels all of them."""

    models: tuple[str, ...] = ()
    not_models: tuple[str, ...] = ()
    uuids: tuple[str, ...] = ()
    not_uuids: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()


ANY = Select()


@dataclass(frozen=True)
class Ask:
    """What one container asks for, of each of `count` cards of one node.

    `gpu_milli` is guaranteed compute, None where no compute is guaranteed; `cap_milli` what it never exceeds, None
    where that is `sharing`'s to say. Memory is `memory_bytes`, or `memory_milli` of the card's memory (known when the
    card is), or neither: then it is the same part as of the compute. `sharing` is what was said, `usual` what the
    system does where nothing is. `urgency` (`high`, `low`) is beside the tenants of the same card, not in the queue.
    """

    count: int = 1
    gpu_milli: int | None = None
    cap_milli: int | None = None
    memory_bytes: int | None = None
    memory_milli: int | None = None
    sharing: Sharing | None = None
    usual: Sharing | None = None
    profile: str | None = None
    urgency: str | None = None
    vendor: str = NVIDIA
    select: Select = ANY
    rules: tuple[str, ...] = ()
    guesses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        return self.gpu_milli == WHOLE and self.sharing is not Sharing.BEST_EFFORT and self.profile is None

    @property
    def held_milli(self) -> int:
        """Compute that is held per card."""
        return 0 if self.sharing is Sharing.BEST_EFFORT else self.gpu_milli or 0

    def completed(self) -> Ask:
        """With everything said that follows from the rest; completing twice changes nothing."""
        compute = self.gpu_milli is not None or self.profile is not None
        sharing = self.sharing or self.usual or (Sharing.FIXED if compute else Sharing.BEST_EFFORT)
        if not compute or self.gpu_milli == WHOLE == (self.cap_milli or WHOLE):
            sharing = Sharing.BEST_EFFORT if not compute or sharing is Sharing.BEST_EFFORT else Sharing.FIXED
        cap = self.cap_milli if sharing is Sharing.BURST or self.gpu_milli is None else None
        part = None if self.memory_milli == self.gpu_milli else self.memory_milli
        return replace(self, sharing=sharing, usual=None, cap_milli=cap, memory_milli=part)

    @property
    def bare(self) -> Ask:
        """The same without what is said about it."""
        return replace(self, rules=(), guesses=(), notes=())

    def __str__(self) -> str:
        best_effort = self.sharing is Sharing.BEST_EFFORT
        if self.profile is not None:
            return f"partition {self.profile}" if self.count == 1 else f"{self.count} × [partition {self.profile}]"
        milli = WHOLE if self.gpu_milli is None else self.gpu_milli
        text = format_share(milli, self.memory_bytes, self.count, best_effort=best_effort)
        if self.memory_milli is not None:
            text = text.replace("its part of the memory", f"{format_percent(self.memory_milli)} % of the memory")
        return text


@dataclass(frozen=True)
class GangHint:
    """Pods that start together: of `size` (None: not said) at least `minimum`."""

    name: str
    minimum: int | None = None
    size: int | None = None


@dataclass(frozen=True)
class Hints:
    """What is said of the whole pod. None is: nothing."""

    queue: str | None = None
    gang: GangHint | None = None
    within: Within | None = None
    priority: str | None = None
    preemptible: bool | None = None


NO_HINTS = Hints()


@dataclass(frozen=True)
class Reading:
    """What one dialect understood. `select` and `sharing` hold for every container that asks for cards."""

    asks: Mapping[str, Ask] = field(default_factory=dict)
    select: Select = ANY
    sharing: Sharing | None = None
    hints: Hints = NO_HINTS
    rules: tuple[str, ...] = ()
    guesses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        return self == NOTHING


NOTHING = Reading()
Reader = Callable[["Pod", "NodeFacts"], Reading]


@dataclass(frozen=True)
class Dialect:
    """One system: its words, where they are documented, how they are read, and which schedulers are its own.

    `prefixes` begin the keys that are nobody else's: one of them that no dialect knows was probably meant otherwise.
    """

    name: str
    title: str
    source: str
    names: tuple[Name, ...]
    read: Reader
    prefixes: tuple[str, ...] = ()
    schedulers: tuple[str, ...] = ()


@dataclass(frozen=True)
class ContainerClaim:
    """The completed ask of one container; `kind` is `app`, `sidecar` or `init`."""

    container: str
    kind: str
    ask: Ask
    dialects: tuple[str, ...] = ()


@dataclass(frozen=True)
class PodClaim:
    """The normal form of a pod. Without containers it asks for no cards, and is nobody's business here."""

    containers: tuple[ContainerClaim, ...] = ()
    hints: Hints = NO_HINTS
    rules: tuple[str, ...] = ()
    guesses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    """Words that seem to ask for cards and that no dialect knows; whoever applies the pod is warned of them."""


def differing(one: Part, other: Part) -> list[str]:
    """Names of the fields in which both say something, and not the same."""
    pairs = ((f.name, getattr(one, f.name), getattr(other, f.name)) for f in _fields(one))
    return [name for name, a, b in pairs if a is not None and b is not None and a != b]


def joined(one: Part, other: Part) -> Part:
    """The first's words, and the second's where the first says nothing."""
    gaps = {f.name: getattr(other, f.name) for f in _fields(one) if getattr(one, f.name) is None}
    return replace(one, **gaps)  # type: ignore[type-var]  # a dataclass, as `fields` has just shown


def _fields(one: Any) -> tuple[Any, ...]:
    return fields(one)
