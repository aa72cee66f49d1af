"""The networks of a pool for programs.

lab = pool.networks.create("lab", "10.0.0.0/24")
pool.submit(["python", "serve.py"], gpu=0.1, name="server", network="lab")
lab.load_balancers.create(name="web", port=80, target_port=8000, backends=["server"])
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from gpupool.client.messages import path_segment
from gpupool.client.networks.network import Network
from gpupool.client.networks.parts import NetworkParts
from gpupool.client.networks.waiting import wait_for
from gpupool.client.paging import iterate_items
from gpupool.client.transport import Api
from gpupool.wire.network.firewall import FirewallRuleOut
from gpupool.wire.network.load_balancers import ExposureOut
from gpupool.wire.network.networks import NetworkEngineOut, NetworkOut
from gpupool.wire.network.promises import NetworkVerificationOut
from gpupool.wire.network.quotas import NetworkQuotaOut


class Networks:
    """The networks of a pool: iterate over those that the caller sees."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def __iter__(self) -> Iterator[NetworkOut]:
        for item in iterate_items(self._api, "networks"):
            yield NetworkOut.model_validate(item)

    def get(self, name: str, *, tenant: str | None = None) -> Network:
        """Return a handle of a network; sends nothing.

        Args:
            tenant: its owner, where that is not the caller's tenant (admins).
        """
        return Network(self._api, name, tenant)

    def create(
        self,
        name: str,
        cidr: str,
        *,
        cidr6: str | None = None,
        mtu: int | None = None,
        tenant: str | None = None,
    ) -> Network:
        """Create a network with one subnet; `Network.create_subnet` adds others.

        Args:
            cidr: IPv4 prefix of 16 to 28 bits.
            cidr6: IPv6 prefix of 64 bits, or `auto`.
            mtu: largest packet inside it, in bytes.
            tenant: its owner, where that is not the caller's tenant (admins).
        """
        body: dict[str, Any] = {
            "name": name,
            "subnets": [{"cidr": cidr, "cidr6": cidr6}],
            "tenant": tenant,
        }
        if mtu is not None:
            body["mtu"] = mtu
        key = os.urandom(16).hex()
        made = self._api.request("POST", "networks", body, idempotency_key=key)
        return Network(self._api, made["name"], tenant)

    @property
    def firewall(self) -> NetworkParts[FirewallRuleOut]:
        """Rules at the boundary of the pool (admins)."""
        return NetworkParts(self._api, "network-firewall", FirewallRuleOut)

    def engine(self) -> NetworkEngineOut:
        """Return the state of the engine that carries networks."""
        return NetworkEngineOut.model_validate(self._api.request("GET", "network-engine"))

    def enable(self, **settings: Any) -> NetworkEngineOut:
        """Start the engine and wait until it is ready or has failed (admins).

        Args:
            settings: those of `gpupool.wire.network.networks.NetworkEngineIn`.

        Raises NetworkingUnavailable when it takes too long; the engine goes on by itself.
        """
        self._api.request("PUT", "network-engine", settings)
        return wait_for(self.engine, lambda engine: engine.state == "starting", "the engine")

    def disable(self) -> NetworkEngineOut:
        """End the engine and wait for that (admins). Networks stay in the pool.

        Raises NetworkingUnavailable when it takes too long; the engine goes on by itself.
        """
        self._api.request("DELETE", "network-engine")
        return wait_for(self.engine, lambda engine: engine.state == "stopping", "the engine")

    def verify(
        self, network: str | None = None, *, tenant: str | None = None
    ) -> NetworkVerificationOut:
        """Prove with packets that networks keep what they promise; blocks until the report.

        Args:
            network: one of them; None: each that the caller may see.

        Raises NetworkingUnavailable when there is no report in time.
        """
        body = {"network": network, "tenant": tenant}
        key = os.urandom(16).hex()
        made = self._api.request("POST", "network-verifications", body, idempotency_key=key)

        def read() -> NetworkVerificationOut:
            found = self._api.request("GET", f"network-verifications/{made['id']}")
            return NetworkVerificationOut.model_validate(found)

        return wait_for(read, lambda found: found.state == "running", "the verification")

    def list_quotas(self, tenant: str) -> list[NetworkQuotaOut]:
        """List what a tenant may have at most of networks and their parts, and what it has."""
        shown = self._api.request("GET", f"tenants/{path_segment(tenant)}/network-quota")
        return [NetworkQuotaOut.model_validate(one) for one in shown]

    def set_quotas(self, tenant: str, **quotas: int | None) -> list[NetworkQuotaOut]:
        """Set quotas of a tenant (admins); None ends one.

        Args:
            quotas: by the fields of `gpupool.wire.network.quotas.NetworkQuotaIn`.
        """
        path = f"tenants/{path_segment(tenant)}/network-quota"
        shown = self._api.request("PUT", path, quotas)
        return [NetworkQuotaOut.model_validate(one) for one in shown]

    def expose(
        self,
        job: str,
        port: int,
        *,
        is_http: bool = False,
        host: str | None = None,
        balancer: str | None = None,
    ) -> ExposureOut:
        """Publish a port of a job by a load balancer; does not wait until it answers. Idempotent.

        Args:
            host: with `is_http` the only host that it answers.
            balancer: name of the load balancer, also in DNS; None: made of job and port.
        """
        body = {"port": port, "is_http": is_http, "host": host, "name": balancer}
        key = os.urandom(16).hex()
        path = f"jobs/{path_segment(job)}/exposures"
        made = self._api.request("POST", path, body, idempotency_key=key)
        return ExposureOut.model_validate(made)

    def list_exposures(self, job: str) -> list[ExposureOut]:
        """List the published ports of a job."""
        shown = self._api.request("GET", f"jobs/{path_segment(job)}/exposures")
        return [ExposureOut.model_validate(one) for one in shown]

    def unexpose(self, job: str, port: int) -> None:
        """Publish a port of a job no longer."""
        self._api.request("DELETE", f"jobs/{path_segment(job)}/exposures/{port}")
