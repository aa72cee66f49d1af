"""One namespace of a cluster with a pool, as tests of others' controllers look at it."""

from __future__ import annotations

from typing import Any

from gpupool.kubernetes.resources import names
from tests.support.cluster.api import Api
from tests.support.cluster.pods import is_bound
from tests.support.cluster_pool import ClusterPool
from tests.support.simulated_kubelet import ends

Json = dict[str, Any]
CARD = {"gpupool.dev/gpus": "1"}
CLEAR_SECONDS = 90.0
"""A controller that is told of the deletion late makes pods again, whose gang keeps its seats for a
while."""


class Space:
    """`name` is the namespace's."""

    def __init__(self, admin: Api, pool: ClusterPool, name: str) -> None:
        self.admin, self.pool, self.name = admin, pool, name

    @property
    def pods_path(self) -> str:
        return f"/api/v1/namespaces/{self.name}/pods"

    def path(self, version: str, plural: str) -> str:
        return f"/apis/{version}/namespaces/{self.name}/{plural}"

    def pods(self, prefix: str = "") -> dict[str, Json]:
        """By name."""
        found = self.admin.get(self.pods_path)["items"]
        return {
            one["metadata"]["name"]: one
            for one in found
            if one["metadata"]["name"].startswith(prefix)
        }

    def bound(self, prefix: str = "") -> dict[str, str]:
        """By name of a pod that is bound and stays, its node."""
        found = self.pods(prefix).items()
        return {
            name: one["spec"]["nodeName"]
            for name, one in found
            if is_bound(one) and not one["metadata"].get("deletionTimestamp")
        }

    def uids(self, prefix: str = "") -> dict[str, str]:
        return {name: one["metadata"]["uid"] for name, one in self.pods(prefix).items()}

    def seats(self, gang: str = "") -> list[Json]:
        """Entries of ledgers, those of members that do not exist included."""
        found = [entry for entries in self.pool.entries().values() for entry in entries]
        return [
            entry
            for entry in found
            if entry["namespace"] == self.name and gang in entry.get("gang", "")
        ]

    def cards(self, name: str) -> list[str]:
        """The cards that stand in a ledger for the pod of that name."""
        return [
            card["uuid"]
            for entry in self.seats()
            if entry["pod"] == name
            for card in entry["cards"]
        ]

    def why(self, name: str) -> str:
        """What stands on a pod that waits; empty where it is not there yet."""
        conditions = self.pods().get(name, {}).get("status", {}).get("conditions", ())
        return next(
            (one.get("message", "") for one in conditions if one["type"] == names.CONDITION), ""
        )

    def small(self, name: str) -> None:
        """A pod of nobody's that asks one card."""
        container = {"name": "main", "image": "x:1", "resources": {"limits": CARD}}
        meta, spec = {"name": name}, {"terminationGracePeriodSeconds": 0, "containers": [container]}
        self.admin.create(
            self.pods_path, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        )

    def remove(self, name: str) -> None:
        self.admin.delete(f"{self.pods_path}/{name}?gracePeriodSeconds=0")

    def evict(self, name: str) -> None:
        """As `kubectl drain` asks for it."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": self.name},
        }
        self.admin.create(f"{self.pods_path}/{name}/eviction", body)

    def fail(self, name: str) -> None:
        """Its containers end badly, as their kubelet tells it."""
        ends(self.admin, self.pods()[name], "Failed")

    def clear(self, *paths: str) -> None:
        """These objects are deleted, and every pod; until no pod and no entry is left."""
        for path in paths:
            self.admin.delete(f"{path}?propagationPolicy=Background")

        def gone() -> bool:
            self.admin.delete(f"{self.pods_path}?gracePeriodSeconds=0")
            return not self.pods() and not self.seats()

        self.pool.until(gone, "no pod and no entry", CLEAR_SECONDS)
