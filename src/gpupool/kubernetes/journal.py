"""What ended on a node and does not fit into its ledger any more while the meter is away: a ConfigMap for each 200.

Written before the ledger lets go of it, so a crash between the two leaves it in both, which the books take as once.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from gpupool.base.errors import ApiRefused
from gpupool.kubernetes import names
from gpupool.kubernetes.api import KubeApi
from gpupool.kubernetes.ended import Ended

log = logging.getLogger(__name__)


class Journal:
    """Of every node, in gpupool's own namespace."""

    def __init__(self, api: KubeApi, namespace: str) -> None:
        self._api, self.path, self._namespace = api, f"/api/v1/namespaces/{namespace}/configmaps", namespace

    async def put(self, node: str, ended: Sequence[Ended]) -> bool:
        """Keep what ended on that node; twice is once. False where it is refused: then it has to stay in the ledger."""
        try:
            await self._api.create(self.path, page(node, self._namespace, ended))
        except ApiRefused as error:
            if error.conflict:
                return True
            log.warning("what ended on %s stays in its ledger, its journal is refused: %s", node, error)
            return False
        return True


def page(node: str, namespace: str, ended: Sequence[Ended]) -> dict[str, Any]:
    """One page of the journal, named after the node and its latest instant."""
    name = f"gpupool-ended-{hashlib.sha256(node.encode()).hexdigest()[:12]}-{ended[-1].ended_ns}"
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": {names.JOURNAL: "true"}},
        "data": {"node": node, "ended": json.dumps([one.to_json() for one in ended], separators=(",", ":"))},
    }


def read_page(found: Mapping[str, Any]) -> tuple[str, list[Ended]]:
    """The node, and what ended there."""
    data = found["data"]
    return data["node"], [Ended.from_json(one) for one in json.loads(data["ended"])]
