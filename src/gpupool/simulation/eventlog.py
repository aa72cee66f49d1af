"""The pool's own event log as a trace (`record` writes a replay down as such a log).

What `gpupool events -o json` prints: one JSON object a line, with `seq`, `at_ns`, `kind`, `subject`, `tenant`, `data`.
A trace is made of `device.added`, `tenant.created`, `quota.changed`, `job.submitted`, `job.placed`, `job.requeued` and
`job.ended`; every other kind is passed over. How long a job runs is told by its last placement and its end; one that
still runs when the log ends is taken to end then. Jobs that left the queue without having been placed are left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpupool.base.errors import BadTrace
from gpupool.model.claim import CardSelector, Shape, Sharing, Within
from gpupool.model.quota import Quota
from gpupool.simulation.trace import DEFAULT_TENANT, Arrival, Node, Trace, made

_QUOTA = ("nominal_milli", "borrowing_milli", "nominal_memory_bytes", "borrowing_memory_bytes")


def looks_like(text: str) -> bool:
    """Whether a file is an event log rather than a table."""
    return text.lstrip()[:1] == "{"


@dataclass(frozen=True)
class Start:
    """When and where a job started; `cards` are places on the node, as in the trace's nodes."""

    at_ns: int
    node: str
    cards: tuple[int, ...]


@dataclass(frozen=True)
class Log:
    """The trace, the instant at which it begins, and the first start of each job as the pool decided it.

    Jobs have the names that a replay gives them.
    """

    trace: Trace
    begin_ns: int
    starts: Mapping[str, Start]


def read_events(name: str, text: str) -> Trace:
    """The trace of a log. Raises BadTrace, which names the line."""
    return read_log(name, text).trace


def read_log(name: str, text: str) -> Log:
    """The trace of a log with what the pool decided. Raises BadTrace, which names the line."""
    reader = _Reader(name)
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            reader.take(_event(name, number, line), number)
    return Log(reader.trace(), reader.begin_ns or 0, reader.first_starts())


def _event(name: str, number: int, line: str) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadTrace(f"{name}, line {number}: no JSON ({error})", line=number) from None
    needed = {"at_ns": int, "kind": str, "subject": str, "data": dict}
    for field_name, kind in needed.items():
        if not isinstance(event, dict) or not isinstance(event.get(field_name), kind):
            what = f"the field {field_name} is missing or not {_A[kind]}"
            raise BadTrace(f"{name}, line {number}: {what}", line=number, column=field_name)
    return dict(event)


_A = {int: "a whole number", str: "a text", dict: "an object"}


@dataclass
class _Draft:
    """A job while the log is read."""

    name: str
    at_ns: int
    shape: Shape
    tenant: str
    priority: int
    limit_seconds: int | None
    members: int = 1
    gang: str = ""
    preemptible: bool = False
    placed_ns: int | None = None
    run_ns: int | None = None

    def arrival(self, end_ns: int) -> Arrival | None:
        if self.run_ns is None and self.placed_ns is None:
            return None
        run_ns = self.run_ns if self.run_ns is not None else end_ns - (self.placed_ns or 0)
        return Arrival(
            job=self.name,
            at_ns=self.at_ns,
            shape=self.shape,
            run_ns=max(1, run_ns),
            tenant=self.tenant,
            priority=self.priority,
            limit_seconds=self.limit_seconds,
            gang=self.gang,
            members=self.members,
            preemptible=self.preemptible,
        )


@dataclass
class _Array:
    """A submission of many jobs alike; one becomes a draft when it is first told of, as in the pool."""

    data: Mapping[str, Any]
    at_ns: int
    count: int
    members: dict[str, _Draft] = field(default_factory=dict)
    """By index."""

    def has(self, index: str) -> bool:
        return index.isascii() and index.isdigit() and int(index) < self.count


@dataclass
class _Reader:
    name: str
    begin_ns: int | None = None
    last_ns: int = 0
    line: int = 0
    drafts: list[_Draft] = field(default_factory=list)
    live: dict[tuple[str, str], _Draft] = field(default_factory=dict)
    arrays: dict[tuple[str, str], _Array] = field(default_factory=dict)
    used: set[tuple[str, str]] = field(default_factory=set)
    """Names of drafts, with their tenants."""
    jobs: dict[tuple[str, str], str] = field(default_factory=dict)
    """By tenant and name in the log, the name in a replay."""
    starts: dict[str, tuple[int, Mapping[str, Any]]] = field(default_factory=dict)
    cards: dict[str, dict[int, tuple[str, int]]] = field(default_factory=dict)
    devices: dict[str, str] = field(default_factory=dict)
    """By device id, `node:index`."""
    quotas: dict[str, Quota] = field(default_factory=dict)
    weights: dict[str, int] = field(default_factory=dict)

    def take(self, event: Mapping[str, Any], line: int) -> None:
        self.line = line
        if self.begin_ns is None:
            self.begin_ns = int(event["at_ns"])
        at = int(event["at_ns"]) - self.begin_ns
        if at < self.last_ns:
            raise BadTrace(f"{self.name}, line {line}: at_ns goes back by {self.last_ns - at} ns", line=line)
        self.last_ns = at
        known = _TAKERS.get(event["kind"])
        if known is None:
            return
        try:
            known(self, event, at)
        except (KeyError, OverflowError, TypeError, ValueError) as error:
            what = f"{event['kind']} lacks {error}" if isinstance(error, KeyError) else str(error)
            raise BadTrace(f"{self.name}, line {line}: {what}", line=line) from None

    def submitted(self, event: Mapping[str, Any], at: int) -> None:
        data, tenant = event["data"], event.get("tenant") or DEFAULT_TENANT
        if "shape" not in data:
            raise ValueError("job.submitted has no shape: it was written by an older gpupool")
        count, gang, name = int(data.get("count", 1)), str(data.get("gang") or ""), str(data["name"])
        self.weights.setdefault(tenant, 1)
        if gang:
            self._gang(data, tenant, at, count)
        elif count > 1 or "array" in data:
            self.arrays[(tenant, name)] = _Array(data, at, count)
        else:
            self.live[(tenant, name)] = draft = self._draft(data, tenant, at, name, 1, data["shape"])
            self.jobs[(tenant, name)] = draft.name

    def _gang(self, data: Mapping[str, Any], tenant: str, at: int, count: int) -> None:
        """A draft for each role, with the names under which its members are told of."""
        roles = data.get("roles") or [{"count": count, "shape": data["shape"]}]
        first = 0
        for number, role in enumerate(roles):
            members = int(role["count"])
            name = data["name"] if len(roles) == 1 else f"{data['name']}:{number}"
            draft = self._draft(data, tenant, at, name, members, role["shape"])
            for n in range(members):
                member = tenant, f"{data['name']}.{first + n}"
                self.live[member] = draft
                self.jobs[member] = draft.name if members == 1 else f"{draft.name}.{n}"
            first += members

    def _draft(
        self, data: Mapping[str, Any], tenant: str, at: int, name: str, members: int, shape: Mapping[str, Any]
    ) -> _Draft:
        """One job, or one role of a gang."""
        draft = _Draft(
            name=self._unused(name, tenant),
            at_ns=at,
            shape=shape_from(shape),
            tenant=tenant,
            priority=int(data.get("priority", 0)),
            limit_seconds=data.get("max_seconds"),
            members=members,
            gang=str(data.get("gang") or ""),
            preemptible=bool(data.get("preemptible", False)),
        )
        self.drafts.append(draft)
        return draft

    def _unused(self, name: str, tenant: str) -> str:
        """A name may come again when its job has ended; jobs of a trace are told apart by it."""
        if (tenant, name) in self.used:
            return f"{name}@{len(self.drafts)}"
        self.used.add((tenant, name))
        return name

    def placed(self, event: Mapping[str, Any], at: int) -> None:
        draft = self._of(event) or self._member(event)
        if draft is not None:
            draft.placed_ns, draft.run_ns = at, None
            job = event.get("tenant") or DEFAULT_TENANT, str(event["data"]["name"])
            self.starts.setdefault(self.jobs[job], (at, event["data"]))

    def requeued(self, event: Mapping[str, Any], at: int) -> None:
        draft = self._of(event)
        if draft is not None:
            draft.placed_ns = None

    def ended(self, event: Mapping[str, Any], at: int) -> None:
        draft = self._of(event)
        if draft is not None and draft.placed_ns is not None:
            draft.run_ns = max(draft.run_ns or 0, at - draft.placed_ns)

    def _member(self, event: Mapping[str, Any]) -> _Draft | None:
        """The draft of an array's member that is placed for the first time."""
        found = self._in_array(event)
        if found is None or not found[0].has(found[1]):
            return None
        array, index = found
        tenant, name = event.get("tenant") or DEFAULT_TENANT, str(event["data"]["name"])
        draft = self._draft(array.data, tenant, array.at_ns, name, 1, array.data["shape"])
        array.members[index] = draft
        self.jobs[tenant, name] = draft.name
        return draft

    def _in_array(self, event: Mapping[str, Any]) -> tuple[_Array, str] | None:
        name, _, index = str(event["data"]["name"]).rpartition(".")
        array = self.arrays.get((event.get("tenant") or DEFAULT_TENANT, name))
        return None if array is None else (array, index)

    def _of(self, event: Mapping[str, Any]) -> _Draft | None:
        """The job of an event; None where the log begins after its submission."""
        found = self._in_array(event)
        if found is not None and found[1] in found[0].members:
            return found[0].members[found[1]]
        return self.live.get((event.get("tenant") or DEFAULT_TENANT, event["data"]["name"]))

    def card(self, event: Mapping[str, Any], at: int) -> None:
        node, _, index = event["subject"].rpartition(":")
        data = event["data"]
        if not data.get("returned"):
            self.cards.setdefault(node, {})[int(index)] = (str(data["model"]), int(data["memory_bytes"]))
            self.devices[str(data.get("uuid") or event["subject"])] = event["subject"]

    def quota(self, event: Mapping[str, Any], at: int) -> None:
        data = event["data"].get("quota", event["data"])
        self.quotas[event["subject"]] = Quota(**{name: data[name] for name in _QUOTA if name in data})
        self.weights[event["subject"]] = int(data.get("weight") or 1)

    def first_starts(self) -> dict[str, Start]:
        """Of each job; cards of which the log does not tell are left out."""
        return {job: self._start(at, data) for job, (at, data) in self.starts.items()}

    def _start(self, at_ns: int, data: Mapping[str, Any]) -> Start:
        node = str(data.get("node") or "")
        places = {index: place for place, index in enumerate(sorted(self.cards.get(node, {})))}
        named = [self.devices.get(str(card), str(card)).rpartition(":") for card in data.get("cards") or ()]
        known = [places[int(index)] for _, _, index in named if index.isdigit() and int(index) in places]
        return Start(at_ns, node, tuple(sorted(known)))

    def trace(self) -> Trace:
        nodes = tuple(
            Node(name, tuple(card for _, card in sorted(cards.items()))) for name, cards in self.cards.items()
        )
        found = [draft.arrival(self.last_ns) for draft in self.drafts]
        arrivals = [one for one in found if one is not None]
        if not arrivals:
            raise BadTrace(f"{self.name} tells of no job that was placed", hint="gpupool events -o json --after 0")
        trace = made(self.name, arrivals, self.weights, nodes)
        return Trace(trace.name, trace.arrivals, trace.weights, nodes, self.quotas)


_TAKERS = {
    "device.added": _Reader.card,
    "tenant.created": _Reader.quota,
    "quota.changed": _Reader.quota,
    "job.submitted": _Reader.submitted,
    "job.placed": _Reader.placed,
    "job.requeued": _Reader.requeued,
    "job.ended": _Reader.ended,
}


def shape_from(data: Mapping[str, Any]) -> Shape:
    """The shape as a submission's event has it; what is left out is as in `Shape`. Raises KeyError, TypeError."""
    given = dict(data)
    within = given.pop("within", None)
    selector = given.pop("selector", None) or {}
    labels = tuple((str(key), str(value)) for key, value in given.pop("labels", ()))
    sharing = Sharing(given.pop("sharing", Sharing.FIXED))
    return Shape(
        **given,
        labels=labels,
        sharing=sharing,
        within=Within(**within) if within else Within(),
        selector=CardSelector(**{key: _selected(value) for key, value in selector.items()}),
    )


def _selected(value: Any) -> Any:
    """Lists of the log as tuples."""
    return tuple(map(str, value)) if isinstance(value, list) else value
