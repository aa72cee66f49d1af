"""Read the pool's own event log as a trace (`record` writes a replay down as such a log).

The log is what `gpupool events -o json` prints: one JSON object a line, with `seq`, `at_ns`,
`kind`, `subject`, `tenant`, `data`. A trace is made of `device.added`, `tenant.created`,
`quota.changed`, `job.submitted`, `job.placed`, `job.requeued` and `job.ended`; other kinds are
passed over. A job runs from its last placement to its end; a job that still runs when the log
ends is taken to end then. Jobs that left the queue without a placement are left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpupool.base.errors import BadTrace
from gpupool.model.quota import Quota
from gpupool.simulation.traces.job_drafts import JobArray, JobDraft, parse_shape
from gpupool.simulation.traces.trace import (
    DEFAULT_TENANT,
    JobArrival,
    TraceNode,
    WorkloadTrace,
    build_trace,
)

_QUOTA = ("nominal_milli", "borrowing_milli", "nominal_memory_bytes", "borrowing_memory_bytes")


def is_event_log(text: str) -> bool:
    """Whether a file is an event log rather than a table."""
    return text.lstrip()[:1] == "{"


@dataclass(frozen=True)
class LoggedStart:
    """When and where a job started; `cards` are places on the node, as in the trace's nodes."""

    at_ns: int
    node: str
    cards: tuple[int, ...]


@dataclass(frozen=True)
class EventLog:
    """A trace with the first start of each job, as the pool decided it.

    `starts` is keyed by the job's name in a replay; `begin_ns` is the instant of the log at which
    the trace begins.
    """

    trace: WorkloadTrace
    begin_ns: int
    starts: Mapping[str, LoggedStart]


def read_events(name: str, text: str) -> WorkloadTrace:
    """Read the trace of a log. Raises BadTrace, which names the line."""
    return read_log(name, text).trace


def read_log(name: str, text: str) -> EventLog:
    """Read a log with what the pool decided. Raises BadTrace, which names the line."""
    reader = _LogReader(name)
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            reader.read_event(_parse_event(name, number, line), number)
    return EventLog(reader.build_trace(), reader.begin_ns or 0, reader.list_first_starts())


def _parse_event(name: str, number: int, line: str) -> dict[str, Any]:
    # RecursionError: `json` raises it, and not ValueError, for a line of thousands of brackets.
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
class _LogReader:
    name: str
    begin_ns: int | None = None
    last_ns: int = 0
    line: int = 0
    drafts: list[JobDraft] = field(default_factory=list)
    live: dict[tuple[str, str], JobDraft] = field(default_factory=dict)
    arrays: dict[tuple[str, str], JobArray] = field(default_factory=dict)
    #: Names of drafts, with their tenants.
    used: set[tuple[str, str]] = field(default_factory=set)
    #: By tenant and name in the log, the name in a replay.
    jobs: dict[tuple[str, str], str] = field(default_factory=dict)
    starts: dict[str, tuple[int, Mapping[str, Any]]] = field(default_factory=dict)
    cards: dict[str, dict[int, tuple[str, int]]] = field(default_factory=dict)
    #: By device id, `node:index`.
    devices: dict[str, str] = field(default_factory=dict)
    quotas: dict[str, Quota] = field(default_factory=dict)
    weights: dict[str, int] = field(default_factory=dict)

    def read_event(self, event: Mapping[str, Any], line: int) -> None:
        self.line = line
        if self.begin_ns is None:
            self.begin_ns = int(event["at_ns"])
        at = int(event["at_ns"]) - self.begin_ns
        if at < self.last_ns:
            raise BadTrace(
                f"{self.name}, line {line}: at_ns goes back by {self.last_ns - at} ns", line=line
            )
        self.last_ns = at
        handler = _HANDLERS.get(event["kind"])
        if handler is None:
            return
        # A log is a file that users edit and cut: whatever its fields hold ends in one error that
        # names the line (tests/fuzz feeds it with broken ones).
        try:
            handler(self, event, at)
        except (KeyError, OverflowError, TypeError, ValueError) as error:
            what = f"{event['kind']} lacks {error}" if isinstance(error, KeyError) else str(error)
            raise BadTrace(f"{self.name}, line {line}: {what}", line=line) from None

    def add_submission(self, event: Mapping[str, Any], at: int) -> None:
        data = event["data"]
        tenant = _get_tenant(event)
        if "shape" not in data:
            raise ValueError("job.submitted has no shape: it was written by an older gpupool")
        count = int(data.get("count", 1))
        name = str(data["name"])
        self.weights.setdefault(tenant, 1)
        if data.get("gang"):
            self._add_gang(data, tenant, at, count)
        elif count > 1 or "array" in data:
            self.arrays[(tenant, name)] = JobArray(data, at, count)
        else:
            draft = self._add_draft(data, tenant, at, name, 1, data["shape"])
            self.live[(tenant, name)] = draft
            self.jobs[(tenant, name)] = draft.name

    def _add_gang(self, data: Mapping[str, Any], tenant: str, at: int, count: int) -> None:
        """Add a draft for each role, under the names that later events give its members."""
        roles = data.get("roles") or [{"count": count, "shape": data["shape"]}]
        first = 0
        for number, role in enumerate(roles):
            members = int(role["count"])
            name = data["name"] if len(roles) == 1 else f"{data['name']}:{number}"
            draft = self._add_draft(data, tenant, at, name, members, role["shape"])
            # The pool numbers members through all roles; a replay numbers them in each role.
            for n in range(members):
                member = tenant, f"{data['name']}.{first + n}"
                self.live[member] = draft
                self.jobs[member] = draft.name if members == 1 else f"{draft.name}.{n}"
            first += members

    def _add_draft(
        self,
        data: Mapping[str, Any],
        tenant: str,
        at: int,
        name: str,
        members: int,
        shape: Mapping[str, Any],
    ) -> JobDraft:
        """Add one job, or one role of a gang."""
        draft = JobDraft(
            name=self._choose_name(name, tenant),
            at_ns=at,
            shape=parse_shape(shape),
            tenant=tenant,
            priority=int(data.get("priority", 0)),
            limit_seconds=data.get("max_seconds"),
            members=members,
            gang=str(data.get("gang") or ""),
            preemptible=bool(data.get("preemptible", False)),
        )
        self.drafts.append(draft)
        return draft

    def _choose_name(self, name: str, tenant: str) -> str:
        """Choose the name in the trace: a name of the log may come again after its job's end."""
        if (tenant, name) in self.used:
            return f"{name}@{len(self.drafts)}"
        self.used.add((tenant, name))
        return name

    def note_placement(self, event: Mapping[str, Any], at: int) -> None:
        draft = self._find_draft(event) or self._add_array_member(event)
        if draft is not None:
            draft.placed_ns = at
            # What ran before an eviction counts no more: the run is that of the last placement.
            draft.run_ns = None
            job = _get_tenant(event), str(event["data"]["name"])
            self.starts.setdefault(self.jobs[job], (at, event["data"]))

    def note_requeue(self, event: Mapping[str, Any], at: int) -> None:
        draft = self._find_draft(event)
        if draft is not None:
            draft.placed_ns = None

    def note_end(self, event: Mapping[str, Any], at: int) -> None:
        draft = self._find_draft(event)
        if draft is not None and draft.placed_ns is not None:
            # Members of a role share a draft and end one by one: the role runs as long as its last.
            draft.run_ns = max(draft.run_ns or 0, at - draft.placed_ns)

    def _add_array_member(self, event: Mapping[str, Any]) -> JobDraft | None:
        """Add the draft of an array's member that is placed for the first time."""
        found = self._find_array(event)
        if found is None or not found[0].has_index(found[1]):
            return None
        array, index = found
        tenant = _get_tenant(event)
        name = str(event["data"]["name"])
        draft = self._add_draft(array.data, tenant, array.at_ns, name, 1, array.data["shape"])
        array.members[index] = draft
        self.jobs[tenant, name] = draft.name
        return draft

    def _find_array(self, event: Mapping[str, Any]) -> tuple[JobArray, str] | None:
        name, _, index = str(event["data"]["name"]).rpartition(".")
        array = self.arrays.get((_get_tenant(event), name))
        return None if array is None else (array, index)

    def _find_draft(self, event: Mapping[str, Any]) -> JobDraft | None:
        """Find the job of an event; None where the log begins after its submission."""
        found = self._find_array(event)
        if found is not None and found[1] in found[0].members:
            return found[0].members[found[1]]
        return self.live.get((_get_tenant(event), event["data"]["name"]))

    def add_card(self, event: Mapping[str, Any], at: int) -> None:
        node, _, index = event["subject"].rpartition(":")
        data = event["data"]
        # `returned`: the card was lost and is back; the pool already counts it.
        if not data.get("returned"):
            self.cards.setdefault(node, {})[int(index)] = (
                str(data["model"]),
                int(data["memory_bytes"]),
            )
            self.devices[str(data.get("uuid") or event["subject"])] = event["subject"]

    def set_quota(self, event: Mapping[str, Any], at: int) -> None:
        # `tenant.created` has its quota in a field, `quota.changed` is the quota.
        data = event["data"].get("quota", event["data"])
        known = {name: data[name] for name in _QUOTA if name in data}
        self.quotas[event["subject"]] = Quota(**known)
        self.weights[event["subject"]] = int(data.get("weight") or 1)

    def list_first_starts(self) -> dict[str, LoggedStart]:
        """Return the first start of each job; cards that the log does not describe are left out."""
        return {job: self._build_start(at, data) for job, (at, data) in self.starts.items()}

    def _build_start(self, at_ns: int, data: Mapping[str, Any]) -> LoggedStart:
        node = str(data.get("node") or "")
        # Indices of the log may have gaps (a removed card); places of the trace's node have none.
        places = {index: place for place, index in enumerate(sorted(self.cards.get(node, {})))}
        cards: list[int] = []
        for card in data.get("cards") or ():
            _, _, index = self.devices.get(str(card), str(card)).rpartition(":")
            if index.isdigit() and int(index) in places:
                cards.append(places[int(index)])
        return LoggedStart(at_ns, node, tuple(sorted(cards)))

    def build_trace(self) -> WorkloadTrace:
        nodes: list[TraceNode] = []
        for name, cards in self.cards.items():
            nodes.append(TraceNode(name, tuple(card for _, card in sorted(cards.items()))))
        arrivals: list[JobArrival] = []
        for draft in self.drafts:
            arrival = draft.build_arrival(self.last_ns)
            if arrival is not None:
                arrivals.append(arrival)
        if not arrivals:
            raise BadTrace(
                f"{self.name} tells of no job that was placed",
                hint="gpupool events -o json --after 0",
            )
        trace = build_trace(self.name, arrivals, self.weights, tuple(nodes))
        return replace(trace, quotas=self.quotas)


_HANDLERS = {
    "device.added": _LogReader.add_card,
    "tenant.created": _LogReader.set_quota,
    "quota.changed": _LogReader.set_quota,
    "job.submitted": _LogReader.add_submission,
    "job.placed": _LogReader.note_placement,
    "job.requeued": _LogReader.note_requeue,
    "job.ended": _LogReader.note_end,
}


def _get_tenant(event: Mapping[str, Any]) -> str:
    return event.get("tenant") or DEFAULT_TENANT
