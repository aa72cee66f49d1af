"""`Reservation` objects: what they ask, whether that can be had, and when. No requests here.

Each is judged once, beside all that were accepted before: then it is what the scheduler keeps free, as on one machine.
What was accepted stays so, also for a new leader, who finds it in the object's status. What was refused is judged
again now and then, since the pool may have grown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpupool.base import quantities
from gpupool.base.errors import BadDuration, GpupoolError, NoRoomNow, QuotaExceeded, TooManyCards
from gpupool.base.units import format_share, parse_duration
from gpupool.kubernetes import names
from gpupool.kubernetes.pool import Pool
from gpupool.model.claim import Reason, Rejection, Shape
from gpupool.model.reservation import Reservation
from gpupool.scheduling.admit_reservation import bad_times, judge
from gpupool.scheduling.reservation import Occurrence, occurrences
from gpupool.scheduling.timeline import NEVER

RESERVATIONS = f"/apis/{names.API_VERSION}/reservations"
AGAIN_SECONDS = 30.0
"""So long a refusal holds."""
NS = 10**9
ACCEPTED = "Accepted"

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Known:
    """One object as the API server has it."""

    generation: int
    status: Json
    asked: Reservation | None = None
    problem: GpupoolError | None = None
    at_once: bool = False
    """It names no start, so one that has passed is none of its faults."""

    @classmethod
    def from_json(cls, found: Json) -> Known:
        generation, status = found["metadata"].get("generation", 0), found.get("status") or {}
        try:
            return cls(generation, status, reservation_of(found), at_once="start" not in found["spec"])
        except GpupoolError as error:
            return cls(generation, status, problem=error)

    @property
    def accepted_before(self) -> bool:
        """Whether its status says so."""
        conditions = self.status.get("conditions") or ()
        return any(one.get("type") == ACCEPTED and one.get("status") == "True" for one in conditions)

    @property
    def share(self) -> str:
        """What it holds, for people."""
        if self.asked is None:
            return ""
        shape = self.asked.shape
        share = format_share(shape.gpu_milli, shape.memory_bytes, shape.count)
        return share if self.asked.replicas == 1 else f"{self.asked.replicas} × [{share}]"


def reservation_of(found: Json) -> Reservation:
    """What the object asks. Raises BadDuration, BadQuantity."""
    meta, spec = found["metadata"], found["spec"]
    start = _ns(spec.get("start") or meta["creationTimestamp"])
    end = _ns(spec["end"]) if "end" in spec else None
    if "duration" in spec:
        end = start + parse_duration(spec["duration"]) * NS
    memory = spec.get("memory")
    return Reservation(
        meta["uid"],
        spec["tenant"],
        Shape(
            spec.get("gpuMilli", 1000),
            None if memory is None else quantities.whole(memory),
            spec.get("gpus", 1),
            spec["model"].upper() if spec.get("model") else None,
        ),
        start,
        end,
        name=meta["name"],
        replicas=spec.get("replicas", 1),
        every_ns=parse_duration(spec["every"]) * NS if "every" in spec else None,
        until_ns=_ns(spec["until"]) if "until" in spec else None,
    )


class Reservations:
    """All of them; `seconds` is a monotonic clock."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self.known: dict[str, Known] = {}
        self._accepted: dict[str, Reservation] = {}
        self._refused: dict[str, tuple[GpupoolError, float]] = {}

    def note(self, found: Json, gone: bool) -> bool:
        """A Reservation as it is now; whether something of it is new to us."""
        name = found["metadata"]["name"]
        before, now = self.known.get(name), None if gone else Known.from_json(found)
        if now is None or (before is not None and before.asked != now.asked):
            self.known.pop(name, None)
            self._accepted.pop(name, None)
            self._refused.pop(name, None)
        if now is not None:
            self.known[name] = now
            if now.asked is not None and now.accepted_before:
                self._accepted[name] = now.asked
        return before != now

    def settle(self, pool: Pool, now_ns: int) -> None:
        """Judge what was not yet, the oldest first; from then on the pool keeps what is accepted."""
        for name in sorted(self.known, key=lambda one: (self._since(one), one)):
            known, late = self.known[name], self._refused.get(name)
            again = late is None or self._seconds() - late[1] >= AGAIN_SECONDS
            if known.asked is not None and name not in self._accepted and again:
                refusal = self._judged(known, known.asked, pool, now_ns)
                if refusal is None:
                    self._accepted[name] = known.asked
                    self._refused.pop(name, None)
                else:
                    self._refused[name] = refusal, self._seconds()
        kept = tuple(one for one in self._accepted.values() if next_of(one, now_ns) is not None)
        if kept != pool.reservations:
            pool.reservations = kept
            pool.generation += 1

    def _judged(self, known: Known, asked: Reservation, pool: Pool, now_ns: int) -> GpupoolError | None:
        if (wrong := bad_times(asked, min(now_ns, asked.start_ns) if known.at_once else now_ns)) is not None:
            return BadDuration(wrong)
        snapshot = pool.snapshot(now_ns)
        view = pool.shares.views([asked.tenant], snapshot.cards, now_ns)[asked.tenant]
        others = [one for one in self._accepted.values() if next_of(one, now_ns) is not None]
        said = judge(asked, others, snapshot.cards, snapshot.running, view, now_ns)
        return None if said is None else _error(said)

    def _since(self, name: str) -> int:
        asked = self.known[name].asked
        return asked.start_ns if asked else 0

    def refusal(self, name: str) -> GpupoolError | None:
        """Why it is not in force; None where it is, or was not judged yet."""
        late = self._refused.get(name)
        return self.known[name].problem or (late[0] if late else None)

    def accepted(self, name: str) -> bool:
        return name in self._accepted

    def next_look(self, now_ns: int) -> float | None:
        """Seconds until one begins or ends, or is judged again."""
        coming = (next_of(one, now_ns) for one in self._accepted.values())
        times = [at for one in coming if one is not None for at in (one.start_ns, one.end_ns)]
        looks = [(at - now_ns) / NS for at in times if now_ns < at < NEVER]
        looks += [AGAIN_SECONDS - (self._seconds() - since) for _, since in self._refused.values()]
        return min(looks, default=None)


def _error(said: Rejection) -> GpupoolError:
    if said.dominant is Reason.QUOTA:
        return QuotaExceeded(said.sentence)
    larger = not said.fits_ever and said.dominant is not Reason.RESERVED
    return (TooManyCards if larger else NoRoomNow)(said.sentence)


def next_of(asked: Reservation, now_ns: int) -> Occurrence | None:
    """The occurrence that lasts or comes next; None where it is over."""
    return next(iter(occurrences(asked, now_ns, NEVER)), None)


def _ns(stamp: str) -> int:
    return int(datetime.fromisoformat(stamp).timestamp() * NS)
