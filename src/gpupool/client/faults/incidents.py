"""Incidents of cards in the SDK.

from gpupool.client import Pool
from gpupool.client.faults.incidents import Incidents

with Pool() as pool:
    for incident in Incidents(pool.api).list_incidents():
        print(incident.id, incident.card, incident.xid, incident.repair)
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from gpupool.client.messages import path_segment
from gpupool.wire.answers import read_answer

if TYPE_CHECKING:
    from gpupool.client.transport import Api
    from gpupool.wire.faults.incidents import IncidentOut, IncidentRow


class Incidents:
    """Incidents of cards: list, show, accept, close."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def list_incidents(self, *, node: str | None = None, every: bool = False) -> list[IncidentRow]:
        """List incidents, the latest first; `every`: closed ones too."""
        from gpupool.wire.faults.incidents import IncidentRow

        query = {"node": node, "all": "true" if every else None}
        found = self._api.request("GET", "faults", query=query)
        return [read_answer(IncidentRow, one) for one in found]

    def find(self, incident: str) -> IncidentOut:
        """Return one incident with its evidence. Raises NotFound."""
        return self._read(self._api.request("GET", f"faults/{path_segment(incident)}"))

    def accept(self, incident: str) -> IncidentOut:
        """Take the proposed repair over. Raises RequestRejection where a card is in use."""
        return self._read(self._post(incident, "accept", {}))

    def close(self, incident: str, note: str = "", *, still_failed: bool = False) -> IncidentOut:
        """Close an incident. Raises RequestRejection where a card of it has failed."""
        return self._read(
            self._post(incident, "close", {"note": note, "still_failed": still_failed})
        )

    def _post(self, incident: str, act: str, body: dict[str, Any]) -> Any:
        path = f"faults/{path_segment(incident)}/{act}"
        return self._api.request("POST", path, body, idempotency_key=os.urandom(16).hex())

    def _read(self, answer: Any) -> IncidentOut:
        from gpupool.wire.faults.incidents import IncidentOut

        return read_answer(IncidentOut, answer)
