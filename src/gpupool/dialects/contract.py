"""Defines what a dialect is, and the normal form (`PodClaim`) that every dialect's words end in.

A dialect knows the words of one system (`KnownWord`: keys of resources, annotations, labels,
environment and node selectors) and what a pod that uses them asks for. It is pure: a pod and the
known facts of the node in, a `PodReading` out, or an error of `base.errors` with the numbers. It
must not know other dialects, Kubernetes' API, or the pool.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from gpupool.base.units import WHOLE, format_percent, format_share
from gpupool.model.claim import SharingKind, TopologyConstraint
from gpupool.model.isolation.claim_needs import ClaimNeeds

if TYPE_CHECKING:
    from gpupool.dialects.facts import NodeFacts
    from gpupool.dialects.pod import PlacedWord, PodView

NVIDIA = "nvidia"
#: The guess where a system has memory without compute.
NO_COMPUTE = "no compute was asked for: it takes what is free and is guaranteed none"
FieldsType = TypeVar("FieldsType")


class WordPlace(StrEnum):
    """Where in a pod (or script) a word stands."""

    RESOURCE = "resource"
    ANNOTATION = "annotation"
    LABEL = "label"
    ENV = "environment"
    SELECTOR = "node selector"
    OPTION = "option"


@dataclass(frozen=True)
class KnownWord:
    """One word of a system: the reference pages are made of these.

    `key` may hold `<names>` for what differs. A word that `stays` is left in the pod that is
    written; all others are taken out of it, because they have been said in our words.
    """

    key: str
    where: WordPlace
    values: str
    meaning: str
    stays: bool = False

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        parts = re.split(r"<[^>]*>", self.key)
        return re.compile("[^/]+?".join(map(re.escape, parts)))

    def matches_key(self, key: str) -> bool:
        return self.key == key or ("<" in self.key and self.pattern.fullmatch(key) is not None)


@dataclass(frozen=True)
class CardFilter:
    """Which cards and nodes may be taken: models and cards by name, any of them; labels all of
    them."""

    models: tuple[str, ...] = ()
    not_models: tuple[str, ...] = ()
    uuids: tuple[str, ...] = ()
    not_uuids: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()


ANY = CardFilter()

#: The kinds of sharing that a container can have.
POD_KINDS = tuple(kind for kind in SharingKind if kind is not SharingKind.MPS)


@dataclass(frozen=True)
class ContainerAsk:
    """What one container asks for, of each of `count` cards of one node.

    `gpu_milli` is guaranteed compute, None where no compute is guaranteed; `cap_milli` what it
    never exceeds, None where that is `sharing`'s to say. Memory is `memory_bytes`, or
    `memory_milli` of the card's memory (known when the card is), or neither: then it is the same
    part as of the compute. `sharing` is what was said, `usual` what the system does where nothing
    is. `urgency` (`high`, `low`) is beside the tenants of the same card, not in the queue.
    `names_sharing` is False where neither the pod nor its system chose the sharing, so that the
    default of its node holds (`model.sharing_default`); None: it was chosen, or has no alternative.
    """

    count: int = 1
    gpu_milli: int | None = None
    cap_milli: int | None = None
    memory_bytes: int | None = None
    memory_milli: int | None = None
    sharing: SharingKind | None = None
    usual: SharingKind | None = None
    names_sharing: bool | None = None
    profile: str | None = None
    urgency: str | None = None
    vendor: str = NVIDIA
    select: CardFilter = ANY
    rules: tuple[str, ...] = ()
    guesses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        return (
            self.gpu_milli == WHOLE
            and (self.sharing is None or self.sharing.promises_compute)
            and self.profile is None
        )

    @property
    def can_borrow(self) -> bool:
        """Whether it promises a part of a card's compute, so that there is more of it to borrow."""
        return self.gpu_milli is not None and self.profile is None and not self._has_whole_compute

    @property
    def _has_whole_compute(self) -> bool:
        return self.gpu_milli == WHOLE == (self.cap_milli or WHOLE)

    @property
    def held_milli(self) -> int:
        """Compute that is held per card."""
        held = self.sharing is None or self.sharing.promises_compute
        return (self.gpu_milli or 0) if held else 0

    def complete(self) -> ContainerAsk:
        """With everything said that follows from the rest; completing twice changes nothing."""
        compute = self.gpu_milli is not None or self.profile is not None
        sharing = (
            self.sharing
            or self.usual
            or (SharingKind.FIXED if compute else SharingKind.BEST_EFFORT)
        )
        # A whole card has no neighbour to lend to or to borrow from, and without compute there is
        # nothing to hold.
        if sharing.promises_compute and not compute:
            sharing = SharingKind.BEST_EFFORT
        elif sharing.promises_compute and self._has_whole_compute:
            sharing = SharingKind.FIXED
        is_chosen = self.sharing is not None or self.usual is not None
        names_sharing = self.names_sharing if is_chosen or not self.can_borrow else False
        # A fixed share never exceeds its guarantee: a cap would say nothing.
        cap = self.cap_milli if sharing is SharingKind.BURST or self.gpu_milli is None else None
        # Equal parts are the default of a shape; left out, equal asks compare equal.
        part = None if self.memory_milli == self.gpu_milli else self.memory_milli
        return replace(
            self,
            sharing=sharing,
            usual=None,
            names_sharing=names_sharing,
            cap_milli=cap,
            memory_milli=part,
        )

    @property
    def without_remarks(self) -> ContainerAsk:
        """The same without what is said about it."""
        return replace(self, rules=(), guesses=(), notes=())

    def __str__(self) -> str:
        unpromised = "" if self.sharing is None else self.sharing.unpromised_text
        if self.profile is not None:
            return (
                f"partition {self.profile}"
                if self.count == 1
                else f"{self.count} × [partition {self.profile}]"
            )
        milli = WHOLE if self.gpu_milli is None else self.gpu_milli
        text = format_share(milli, self.memory_bytes, self.count, unpromised=unpromised)
        if self.memory_milli is not None:
            text = text.replace(
                "its part of the memory", f"{format_percent(self.memory_milli)} % of the memory"
            )
        return text


@dataclass(frozen=True)
class GangHint:
    """Pods that start together: of `size` (None: not said) at least `minimum`."""

    name: str
    minimum: int | None = None
    size: int | None = None


@dataclass(frozen=True)
class PodHints:
    """What is said of the whole pod. None is: nothing."""

    queue: str | None = None
    gang: GangHint | None = None
    within: TopologyConstraint | None = None
    priority: str | None = None
    preemptible: bool | None = None
    needs: ClaimNeeds | None = None


NO_HINTS = PodHints()


@dataclass(frozen=True)
class PodReading:
    """What one dialect understood. `select` and `sharing` hold for every container that asks for
    cards."""

    asks: Mapping[str, ContainerAsk] = field(default_factory=dict)
    select: CardFilter = ANY
    sharing: SharingKind | None = None
    hints: PodHints = NO_HINTS
    rules: tuple[str, ...] = ()
    guesses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return self == NOTHING


NOTHING = PodReading()
PodReader = Callable[["PodView", "NodeFacts"], PodReading]


@dataclass(frozen=True)
class Dialect:
    """One system: its words, where they are documented, how they are read, and which schedulers are
    its own.

    `prefixes` begin the keys of this system alone: a key with such a prefix that no dialect knows
    is probably a misspelling.
    """

    name: str
    title: str
    source: str
    names: tuple[KnownWord, ...]
    read: PodReader
    prefixes: tuple[str, ...] = ()
    schedulers: tuple[str, ...] = ()


@dataclass(frozen=True)
class ContainerClaim:
    """The completed ask of one container; `kind` is `app`, `sidecar` or `init`."""

    container: str
    kind: str
    ask: ContainerAsk
    dialects: tuple[str, ...] = ()


@dataclass(frozen=True)
class PodClaim:
    """The normal form of a pod. Without containers it asks for no cards and is left alone."""

    containers: tuple[ContainerClaim, ...] = ()
    hints: PodHints = NO_HINTS
    rules: tuple[str, ...] = ()
    guesses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    #: Words that seem to ask for cards and that no dialect knows. Admission warns of them: such a
    #: pod may get cards from another device plugin, which this pool does not count.
    unread: tuple[str, ...] = ()


def list_rules(dialect: str, *words: PlacedWord | None) -> tuple[str, ...]:
    """Name the words that were read, for the rules of an ask; None is a word that is not there."""
    return tuple(f"{dialect}: {word}" for word in words if word is not None)


def list_differences(one: FieldsType, other: FieldsType) -> list[str]:
    """Names of the fields in which both say something, and not the same."""
    pairs = ((f.name, getattr(one, f.name), getattr(other, f.name)) for f in _list_fields(one))
    return [name for name, a, b in pairs if a is not None and b is not None and a != b]


def merge_fields(one: FieldsType, other: FieldsType) -> FieldsType:
    """The first's words, and the second's where the first says nothing."""
    gaps = {}
    for f in _list_fields(one):
        if getattr(one, f.name) is None:
            gaps[f.name] = getattr(other, f.name)
    return replace(one, **gaps)  # type: ignore[type-var]  # a dataclass, as `fields` has just shown


def _list_fields(one: Any) -> tuple[Any, ...]:
    return fields(one)
