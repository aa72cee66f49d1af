"""Judges `Reservation` objects: what they request, whether that is possible, and when. No requests.

Each is judged once, beside all that were accepted before; then the scheduler keeps its capacity
free. An accepted reservation stays accepted, also for a new leader, which reads it from the
object's status. A refused one is judged again from time to time, because the pool may have grown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from gpupool.base import quantities
from gpupool.base.errors import (
    BadDuration,
    BadQuantity,
    BeyondQuota,
    GpupoolError,
    NoRoomNow,
    TooManyCards,
)
from gpupool.base.units import NANOS_PER_SECOND, format_share, parse_duration
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.resources import names
from gpupool.model.claim import Rejection, RejectionReason, Shape
from gpupool.model.reservation import Reservation
from gpupool.scheduling import (
    NEVER,
    ReservationOccurrence,
    describe_calendar_error,
    iterate_occurrences,
    judge_reservation,
)

RESERVATIONS = f"/apis/{names.API_VERSION}/reservations"
#: No card has so much memory.
MOST_BYTES = 1 << 50
#: So long a refusal holds.
AGAIN_SECONDS = 30.0
ACCEPTED = "Accepted"

Json = Mapping[str, Any]


@dataclass(frozen=True)
class ReservationObject:
    """One object as the API server has it.

    Attributes:
        problem: why its spec cannot be read.
        at_once: its spec names no start, so a start in the past is no error.
    """

    generation: int
    status: Json
    asked: Reservation | None = None
    problem: GpupoolError | None = None
    #: It names no start, so one that has passed is none of its faults.
    at_once: bool = False
    uid: str = ""

    @classmethod
    def from_json(cls, found: Json) -> ReservationObject:
        generation = found["metadata"].get("generation", 0)
        status = found.get("status") or {}
        uid = found["metadata"].get("uid", "")
        try:
            asked = reservation_of(found)
        except GpupoolError as error:
            return cls(generation, status, problem=error, uid=uid)
        return cls(generation, status, asked, at_once="start" not in found["spec"], uid=uid)

    @property
    def accepted_before(self) -> bool:
        """Whether its status says that it is accepted."""
        conditions = self.status.get("conditions") or ()
        return any(
            one.get("type") == ACCEPTED and one.get("status") == "True" for one in conditions
        )

    @property
    def share(self) -> str:
        """The reserved capacity, for users."""
        if self.asked is None:
            return ""
        shape = self.asked.shape
        share = format_share(shape.gpu_milli, shape.memory_bytes, shape.count)
        return share if self.asked.replicas == 1 else f"{self.asked.replicas} × [{share}]"


def reservation_of(found: Json) -> Reservation:
    """What the object requests.

    Raises:
        BadDuration: a duration or an instant cannot be read.
        BadQuantity: the memory cannot be read.
    """
    meta = found["metadata"]
    spec = found["spec"]
    start = _ns(spec.get("start") or meta["creationTimestamp"])
    end = _ns(spec["end"]) if "end" in spec else None
    if "duration" in spec:
        end = min(NEVER, start + parse_duration(spec["duration"]) * NANOS_PER_SECOND)
    return Reservation(
        meta["uid"],
        spec["tenant"],
        Shape(
            spec.get("gpuMilli", 1000),
            _read_memory(spec.get("memory")),
            spec.get("gpus", 1),
            spec["model"].upper() if spec.get("model") else None,
        ),
        start,
        end,
        name=meta["name"],
        replicas=spec.get("replicas", 1),
        every_ns=parse_duration(spec["every"]) * NANOS_PER_SECOND if "every" in spec else None,
        until_ns=_ns(spec["until"]) if "until" in spec else None,
    )


class ReservationRegistry:
    """All reservations. `seconds` is a monotonic clock, in seconds."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self.known: dict[str, ReservationObject] = {}
        self._accepted: dict[str, Reservation] = {}
        self._refused: dict[str, tuple[GpupoolError, float]] = {}

    def note_reservation(self, found: Json, gone: bool) -> bool:
        """Note a Reservation as it is now; whether anything of it is new."""
        name = found["metadata"]["name"]
        before = self.known.get(name)
        now = None if gone else ReservationObject.from_json(found)
        if now is None or (before is not None and before.asked != now.asked):
            self.known.pop(name, None)
            self._accepted.pop(name, None)
            self._refused.pop(name, None)
        if now is not None:
            self.known[name] = now
            if now.asked is not None and now.accepted_before:
                self._accepted[name] = now.asked
        return before != now

    def note_status(self, name: str, answer: Json) -> None:
        """Note the status that a write of it has left; the watch reports the spec."""
        known = self.known.get(name)
        # Meanwhile it may have been deleted, and another made of the same name.
        if known is not None and known.uid == answer["metadata"].get("uid", ""):
            self.known[name] = replace(known, status=answer.get("status") or {})

    def judge_reservations(self, cluster: ClusterCache, now_ns: int) -> None:
        """Judge new reservations, the earliest first; the cluster cache then keeps the accepted
        ones."""
        for name in sorted(self.known, key=lambda one: (self._since(one), one)):
            known = self.known[name]
            late = self._refused.get(name)
            again = late is None or self._seconds() - late[1] >= AGAIN_SECONDS
            if known.asked is not None and name not in self._accepted and again:
                refusal = self._judge_reservation(known, known.asked, cluster, now_ns)
                if refusal is None:
                    self._accepted[name] = known.asked
                    self._refused.pop(name, None)
                else:
                    self._refused[name] = refusal, self._seconds()
        accepted = []
        for one in self._accepted.values():
            if next_occurrence(one, now_ns) is not None:
                accepted.append(one)
        kept = tuple(accepted)
        if kept != cluster.reservations:
            cluster.reservations = kept
            cluster.generation += 1

    def _judge_reservation(
        self, known: ReservationObject, asked: Reservation, cluster: ClusterCache, now_ns: int
    ) -> GpupoolError | None:
        if (
            wrong := describe_calendar_error(
                asked, min(now_ns, asked.start_ns) if known.at_once else now_ns
            )
        ) is not None:
            return BadDuration(wrong)
        snapshot = cluster.take_snapshot(now_ns)
        view = cluster.tenant_usage.tenant_views([asked.tenant], snapshot.cards, now_ns)[
            asked.tenant
        ]
        others = []
        for one in self._accepted.values():
            if next_occurrence(one, now_ns) is not None:
                others.append(one)
        said = judge_reservation(asked, others, snapshot.cards, snapshot.running, view, now_ns)
        return None if said is None else _error(said)

    def _since(self, name: str) -> int:
        asked = self.known[name].asked
        return asked.start_ns if asked else 0

    def refusal(self, name: str) -> GpupoolError | None:
        """Why it is not in force; None if it is, or was not judged yet."""
        late = self._refused.get(name)
        return self.known[name].problem or (late[0] if late else None)

    def is_accepted(self, name: str) -> bool:
        """Whether the reservation of that name is accepted."""
        return name in self._accepted

    def next_look(self, now_ns: int) -> float | None:
        """Seconds until a reservation begins, ends or is judged again; None if there is none."""
        coming = (next_occurrence(one, now_ns) for one in self._accepted.values())
        instants = []
        for one in coming:
            if one is not None:
                for at in (one.start_ns, one.end_ns):
                    instants.append(at)
        looks = [(at - now_ns) / NANOS_PER_SECOND for at in instants if now_ns < at < NEVER]
        looks += [AGAIN_SECONDS - (self._seconds() - since) for _, since in self._refused.values()]
        return min(looks, default=None)


def _error(said: Rejection) -> GpupoolError:
    if said.dominant is RejectionReason.QUOTA:
        return BeyondQuota(said.sentence)
    larger = not said.fits_ever and said.dominant is not RejectionReason.RESERVED
    return (TooManyCards if larger else NoRoomNow)(said.sentence)


def next_occurrence(asked: Reservation, now_ns: int) -> ReservationOccurrence | None:
    """The current or next occurrence; None if the reservation is over."""
    return next(iter(iterate_occurrences(asked, now_ns, NEVER)), None)


def _read_memory(typed: str | int | None) -> int | None:
    if typed is None:
        return None
    size = quantities.parse_whole(typed)
    if size < 0:
        raise BadQuantity(f"memory is {typed}, and cannot be less than nothing", hint="memory: 8Gi")
    # More than any card has, so that it is refused for that and fits into the scheduler's columns.
    return min(size, MOST_BYTES)


def _ns(stamp: str) -> int:
    # The API server takes RFC 3339 in either case, and offsets of any two digits.
    try:
        instant = datetime.fromisoformat(stamp.upper())
    except ValueError as error:
        raise BadDuration(
            f"{stamp[:63]!r} is no time: {error}", hint="write it like 2026-12-01T08:00:00Z"
        ) from None
    # Instants are numbers of 64 bits: what is beyond is past or never.
    return max(0, min(NEVER, int(instant.timestamp() * NANOS_PER_SECOND)))
