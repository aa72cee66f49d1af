"""One case of another scheduler in our terms, and how it is read from its file.

A file holds the cases of one file upstream: `repository`, `commit`, `source` and `cases`. A case
has `nodes`, `cohorts`, `tenants`, `claims` and what is `expected` of each claim in the end. Compute
is in cards, memory in units of which a card has `CARD_MEMORY`; claims stand oldest first. A case
that our terms cannot state has `outside`: what they lack.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CARD_MEMORY = 100
"""Of a card, unless its node says otherwise; the unit is the case's own."""
MODEL = "H100"

Sizes = Mapping[str, float | None]
"""By resource, in cards (cells for whole nodes); None is no limit."""


class BadCase(ValueError):
    """A case says something that the runner does not know."""


@dataclass(frozen=True)
class NodeOf:
    """A node: its cards, what each can be cut into, and processors and main memory where the case
    counts them."""

    cards: int
    model: str = MODEL
    memory: int = CARD_MEMORY
    cpu: int | None = None
    host: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    partitions: Mapping[str, int] = field(default_factory=dict)
    """How many partitions of each profile there are, on cards that can be cut in no other way."""
    partition_mode: bool = False
    """The cards are in partition mode, and nothing is cut of them."""


@dataclass(frozen=True)
class Part:
    """A node of the quota tree. `limit` is the maximum, `lending` what others may use of the
    guarantee."""

    guarantee: Sizes = field(default_factory=dict)
    limit: Sizes = field(default_factory=dict)
    lending: Sizes = field(default_factory=dict)
    weight: float = 1
    cohort: str | None = None
    all_guaranteed: bool = False
    """The guarantee is the whole pool."""


@dataclass(frozen=True)
class Member:
    """One job. Of one that runs: its node, and a name for its card if it shares one with others of
    that name."""

    node: str = ""
    card: str = ""
    leaving: bool = False
    """It runs and is about to end by itself."""
    role: str = ""
    gpu: float | None = None
    """Where it differs from the claim's."""
    partitions: Mapping[str, int] = field(default_factory=dict)
    only: str = ""
    """The one node on which it may run."""


@dataclass(frozen=True)
class RoleOf:
    """Members of a gang with a minimum of their own, perhaps within one domain."""

    name: str
    minimum: int
    within: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class GroupOf:
    """Roles and groups of a gang, perhaps within one domain."""

    roles: tuple[RoleOf, ...] = ()
    groups: tuple[GroupOf, ...] = ()
    within: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ClaimOf:
    """A claim, or a gang of several members of which `minimum` run together."""

    name: str
    tenant: str
    members: tuple[Member, ...]
    priority: int = 0
    preemptible: bool = False
    gpu: float = 0
    devices: int = 1
    """Cards of which a member takes the part `gpu` each."""
    memory: float | None = None
    """Per card; the compute is the same part of a card then."""
    cpu: int = 0
    host: int = 0
    model: str | None = None
    minimum: int | None = None
    group: GroupOf | None = None


@dataclass(frozen=True)
class Expected:
    """What is to become of a claim: how many of its members run in the end, and where, if the case
    says so."""

    running: int
    nodes: tuple[str, ...] = ()
    """One per member that runs, sorted; empty names are of members that may run anywhere."""
    evicted: bool | None = None
    """Whether members of it were evicted at any time; None: not said."""


@dataclass(frozen=True)
class Case:
    """What another scheduler's test says, and where it stands."""

    suite: str
    file: str
    name: str
    nodes: Mapping[str, NodeOf]
    tenants: Mapping[str, Part]
    claims: tuple[ClaimOf, ...]
    expected: Mapping[str, Expected]
    cohorts: Mapping[str, Part] = field(default_factory=dict)
    acts: tuple[str, ...] = ("place", "reclaim", "preempt")
    """What the other scheduler does in this case; without `reclaim` and `preempt` nobody is
    evicted."""
    levels: tuple[str, ...] = ()
    placement: str = ""
    """A policy of ours that the case asks for."""
    counts: str = "cards"
    """`slices`: compute is counted in slices of partitions."""
    outside: str = ""
    source: str = ""

    @property
    def id(self) -> str:
        """Unique, for the table of differences and for people: `kai/reclaim: name`."""
        return f"{self.suite}/{self.file}: {self.name}"


def cases(suite: str) -> Iterator[Case]:
    """Every case of a folder, file by file."""
    for path in sorted((HERE / suite).glob("*.json")):
        yield from _cases(suite, path)


SUITES = ("kai",)
"""Folders with cases of this form."""


def _cases(suite: str, path: Path) -> Iterator[Case]:
    file = json.loads(path.read_text(encoding="utf-8"))
    seen = set[str]()
    for facts in file["cases"]:
        if facts["name"] in seen:
            raise BadCase(f"{path.name}: two cases are named {facts['name']!r}")
        seen.add(facts["name"])
        yield _case(suite, path.stem, file["source"], facts)


def _case(suite: str, file: str, source: str, facts: Mapping[str, Any]) -> Case:
    given = dict(facts)
    given["nodes"] = {name: NodeOf(**node) for name, node in given["nodes"].items()}
    given["tenants"] = {name: _part(part) for name, part in given["tenants"].items()}
    given["cohorts"] = {name: _part(part) for name, part in given.get("cohorts", {}).items()}
    given["claims"] = tuple(_claim(claim) for claim in given["claims"])
    given["expected"] = {name: _expected(one) for name, one in given["expected"].items()}
    given["acts"] = tuple(given.get("acts", Case.acts))
    given["levels"] = tuple(given.get("levels", ()))
    return Case(suite=suite, file=file, source=source, **given)


def _part(facts: Mapping[str, Any]) -> Part:
    given = dict(facts)
    whole = given.get("guarantee") == "all"
    for name in ("guarantee", "limit", "lending"):
        given[name] = _sizes(None if whole and name == "guarantee" else given.get(name))
    return Part(**given, all_guaranteed=whole)


def _sizes(given: float | Sizes | None) -> Sizes:
    """A number is of all cards."""
    if given is None:
        return {}
    return given if isinstance(given, Mapping) else {"gpu": given}


def _claim(facts: Mapping[str, Any]) -> ClaimOf:
    given = dict(facts)
    members = given.get("members", 1)
    each = [{}] * members if isinstance(members, int) else members
    given["members"] = tuple(Member(**one) for one in each)
    if "group" in given:
        given["group"] = _group(given["group"])
    return ClaimOf(**given)


def _group(facts: Mapping[str, Any]) -> GroupOf:
    roles = tuple(RoleOf(**role) for role in facts.get("roles", ()))
    groups = tuple(_group(group) for group in facts.get("groups", ()))
    return GroupOf(roles, groups, facts.get("within", {}))


def _expected(facts: Mapping[str, Any]) -> Expected:
    given = dict(facts)
    nodes: Sequence[str] = given.pop("nodes", ())
    if "node" in given:
        nodes = [given.pop("node")] * given["running"]
    return Expected(nodes=tuple(sorted(nodes)), **given)
