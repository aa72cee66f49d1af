"""Writes the status of Reservations: whether each is accepted, why not, and when it begins."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from gpupool.base.errors import ApiServerRejection, GpupoolError
from gpupool.base.silence import mark_busy
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.kubernetes.client.api import JSON_PATCH, KubeApi, create_backoff
from gpupool.kubernetes.status.reservations import (
    ACCEPTED,
    RESERVATIONS,
    ReservationObject,
    ReservationRegistry,
    next_occurrence,
)
from gpupool.scheduling import NEVER

ACTIVE = "Active"

log = logging.getLogger(__name__)

Json = Mapping[str, Any]


class ReservationStatus:
    """Status writes of one leader. `now_ns` is the wall clock, in nanoseconds since the epoch."""

    def __init__(
        self, api: KubeApi, reservations: ReservationRegistry, now_ns: Callable[[], int]
    ) -> None:
        self._api = api
        self._reservations = reservations
        self._now_ns = now_ns
        #: The uid of the object and its status, by name.
        self._due: dict[str, tuple[str, dict[str, Any]]] = {}
        self._wake = asyncio.Event()

    def update_due(self) -> None:
        """Compute which status must be written; called after each reconciliation."""
        now_ns = self._now_ns()
        known = self._reservations.known
        wanted = {name: self._build_status(name, one, now_ns) for name, one in known.items()}
        due = {}
        for name, status in wanted.items():
            if status != known[name].status:
                due[name] = (known[name].uid, status)
        self._due = due
        if self._due:
            self._wake.set()

    def _build_status(self, name: str, known: ReservationObject, now_ns: int) -> dict[str, Any]:
        refusal = self._reservations.refusal(name)
        accepted = self._reservations.is_accepted(name)
        found: dict[str, Any] = {"observedGeneration": known.generation}
        coming = next_occurrence(known.asked, now_ns) if known.asked and accepted else None
        lasts = coming is not None and coming.start_ns <= now_ns
        state = (
            "Refused"
            if refusal
            else "Pending"
            if not accepted
            else "Ended"
            if coming is None
            else "Planned"
        )
        found["state"] = "Active" if lasts else state
        if known.share:
            found["share"] = known.share
        if coming is not None:
            found["start"] = _stamp(coming.start_ns)
            found |= {} if coming.end_ns == NEVER else {"end": _stamp(coming.end_ns)}
        said = "its cards are kept for it" if accepted else "not judged yet"
        said = f"{refusal.code}: {refusal.message}" if refusal else said
        kept = (
            f"{known.share} are kept from others now" if lasts else "nothing is kept at this moment"
        )
        found["conditions"] = [
            _condition(
                ACCEPTED, accepted, "Accepted" if accepted else state, said, known.status, now_ns
            ),
            _condition(ACTIVE, lasts, found["state"], kept, known.status, now_ns),
        ]
        return found

    async def run(self) -> None:
        """Write what is due until cancelled."""
        backoff = create_backoff()
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._due:
                name, (uid, status) = self._due.popitem()
                try:
                    patch = [
                        # Of a deleted object another may have the name by now.
                        {"op": "test", "path": "/metadata/uid", "value": uid},
                        {"op": "add", "path": "/status", "value": status},
                    ]
                    with mark_busy():
                        written = await self._api.patch(
                            f"{RESERVATIONS}/{name}/status", patch, JSON_PATCH
                        )
                    self._reservations.note_status(name, written)
                    backoff.reset()
                except ApiServerRejection as error:
                    # Of the object that has the name now, the watch will tell.
                    if not (error.is_not_found or error.is_conflict):
                        log.warning("the status of reservation %s is refused: %s", name, error)
                except GpupoolError as error:
                    log.warning("the status of reservation %s is written later: %s", name, error)
                    self._due.setdefault(name, (uid, status))
                    await asyncio.sleep(backoff.pause())


def _condition(
    kind: str, holds: bool, reason: str, message: str, status: Json, now_ns: int
) -> dict[str, Any]:
    """The time is that of the last change from yes to no or back."""
    said = "True" if holds else "False"
    before: Json = next(
        (one for one in status.get("conditions") or () if one.get("type") == kind), {}
    )
    since = before.get("lastTransitionTime") if before.get("status") == said else None
    found = {"type": kind, "status": said, "reason": reason, "message": message[:1024]}
    return {**found, "lastTransitionTime": since or _stamp(now_ns)}


def _stamp(instant_ns: int) -> str:
    return datetime.fromtimestamp(instant_ns // NANOS_PER_SECOND, UTC).strftime(
        "%Y-%m-%dT%H:%M:%SZ"
    )
