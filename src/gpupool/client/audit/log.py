"""The audit log: read it, and verify it on this side of the network.

from gpupool.client import Pool
from gpupool.client.audit.log import AuditLog

with Pool() as pool:
    print(AuditLog(pool.api).verify().head)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gpupool.client.paging import iterate_items
from gpupool.wire.answers import read_answer
from gpupool.wire.audit.chain import ChainReading, ChainVerifier

if TYPE_CHECKING:
    from gpupool.client.transport import Api
    from gpupool.wire.audit.records import AuditHeadOut


class AuditLog:
    """Records of what people did. Bodies are those of `wire.audit.records`."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def iterate_records(
        self, *, order: str = "oldest", **filters: str | int | None
    ) -> Iterator[dict[str, Any]]:
        """Iterate over the records as they were hashed.

        Args:
            order: `oldest` or `newest` first.
            filters: Parameters of GET /api/v1/audit: `since_ns`, `user`, `action` and others.
        """
        return iterate_items(self._api, "audit", {**filters, "order": order})

    def head(self) -> AuditHeadOut:
        """Return the last record's number and hash. Raises NotFound without the right."""
        from gpupool.wire.audit.records import AuditHeadOut

        return read_answer(AuditHeadOut, self._api.request("GET", "audit/head"))

    def verify(self, expected_hash: str | None = None) -> ChainReading:
        """Read every record and compute the chain; trusts no hash that the server states."""
        verifier = ChainVerifier(expected_hash)
        for record in self.iterate_records():
            if not verifier.add(record):
                break
        return verifier.read_result()
