"""What `kubectl get reservations` shows: whether it was accepted, and why not; when it comes, and whether it lasts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from gpupool.base.errors import ApiRefused, GpupoolError
from gpupool.base.silence import busy
from gpupool.kubernetes.api import JSON_PATCH, KubeApi, Pause
from gpupool.kubernetes.reservations import ACCEPTED, RESERVATIONS, Known, Reservations, next_of
from gpupool.scheduling.timeline import NEVER

ACTIVE = "Active"
NS = 10**9

log = logging.getLogger(__name__)

Json = Mapping[str, Any]


class ReservationStatus:
    """`now_ns` is the wall clock."""

    def __init__(self, api: KubeApi, reservations: Reservations, now_ns: Callable[[], int]) -> None:
        self._api, self._reservations, self._now_ns = api, reservations, now_ns
        self._due: dict[str, dict[str, Any]] = {}
        self._wake = asyncio.Event()

    def note(self) -> None:
        """After a round: what every object's status ought to be."""
        now_ns, known = self._now_ns(), self._reservations.known
        wanted = {name: self._wanted(name, one, now_ns) for name, one in known.items()}
        self._due = {name: status for name, status in wanted.items() if status != known[name].status}
        if self._due:
            self._wake.set()

    def _wanted(self, name: str, known: Known, now_ns: int) -> dict[str, Any]:
        refusal, accepted = self._reservations.refusal(name), self._reservations.accepted(name)
        found: dict[str, Any] = {"observedGeneration": known.generation}
        coming = next_of(known.asked, now_ns) if known.asked and accepted else None
        lasts = coming is not None and coming.start_ns <= now_ns
        state = "Refused" if refusal else "Pending" if not accepted else "Ended" if coming is None else "Planned"
        found["state"] = "Active" if lasts else state
        if known.share:
            found["share"] = known.share
        if coming is not None:
            found["start"] = _stamp(coming.start_ns)
            found |= {} if coming.end_ns == NEVER else {"end": _stamp(coming.end_ns)}
        said = "its cards are kept for it" if accepted else "not judged yet"
        said = f"{refusal.code}: {refusal.message}" if refusal else said
        kept = f"{known.share} are kept from others now" if lasts else "nothing is kept at this moment"
        found["conditions"] = [
            _condition(ACCEPTED, accepted, "Accepted" if accepted else state, said, known.status, now_ns),
            _condition(ACTIVE, lasts, found["state"], kept, known.status, now_ns),
        ]
        return found

    async def run(self) -> None:
        """Writes what is due; until it is cancelled."""
        pause = Pause()
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._due:
                name, status = self._due.popitem()
                try:
                    patch = [{"op": "add", "path": "/status", "value": status}]
                    with busy():
                        written = await self._api.patch(f"{RESERVATIONS}/{name}/status", patch, JSON_PATCH)
                    self._reservations.note(written, False)
                    pause.reset()
                except ApiRefused as error:
                    if not error.gone:
                        log.warning("the status of reservation %s is refused: %s", name, error)
                except GpupoolError as error:
                    log.warning("the status of reservation %s is written later: %s", name, error)
                    self._due.setdefault(name, status)
                    await pause.wait()


def _condition(kind: str, holds: bool, reason: str, message: str, status: Json, now_ns: int) -> dict[str, Any]:
    """The time is that of the last change from yes to no or back."""
    said = "True" if holds else "False"
    before: Json = next((one for one in status.get("conditions") or () if one.get("type") == kind), {})
    since = before.get("lastTransitionTime") if before.get("status") == said else None
    found = {"type": kind, "status": said, "reason": reason, "message": message[:1024]}
    return {**found, "lastTransitionTime": since or _stamp(now_ns)}


def _stamp(instant_ns: int) -> str:
    return datetime.fromtimestamp(instant_ns // NS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
