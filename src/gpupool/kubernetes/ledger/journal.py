"""Keeps closed intervals that do not fit into a ledger while the meter is away.

Each page is a ConfigMap with up to 200 intervals. A page is written before its intervals are
removed from the ledger. A crash between the two leaves them in both, and the books count them once.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from gpupool.base.errors import ApiServerRejection
from gpupool.kubernetes.client.api import KubeApi
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.closed_intervals import ClosedInterval

log = logging.getLogger(__name__)


class IntervalJournal:
    """The pages of all nodes, in gpupool's own namespace."""

    def __init__(self, api: KubeApi, namespace: str) -> None:
        self._api = api
        self.path = f"/api/v1/namespaces/{namespace}/configmaps"
        self._namespace = namespace

    async def store_page(self, node: str, ended: Sequence[ClosedInterval]) -> bool:
        """Write one page; idempotent.

        Returns:
            False if the API server refused it. The intervals must then stay in the ledger.
        """
        try:
            await self._api.create(self.path, build_page(node, self._namespace, ended))
        except ApiServerRejection as error:
            if error.is_conflict:
                return True
            log.warning(
                "what ended on %s stays in its ledger, its journal is refused: %s", node, error
            )
            return False
        return True


def build_page(node: str, namespace: str, ended: Sequence[ClosedInterval]) -> dict[str, Any]:
    """The ConfigMap of one page, named after the node and the latest instant."""
    # The name follows from the content, so that writing the same page twice is a conflict and not a
    # second page. The node's name is hashed: it may be as long as an object's name may be.
    name = f"gpupool-ended-{hashlib.sha256(node.encode()).hexdigest()[:12]}-{ended[-1].ended_ns}"
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": {names.JOURNAL: "true"}},
        "data": {
            "node": node,
            "ended": json.dumps([one.to_json() for one in ended], separators=(",", ":")),
        },
    }


def read_page(found: Mapping[str, Any]) -> tuple[str, list[ClosedInterval]]:
    """The node of a page, and its intervals."""
    data = found["data"]
    return data["node"], [ClosedInterval.from_json(one) for one in json.loads(data["ended"])]
