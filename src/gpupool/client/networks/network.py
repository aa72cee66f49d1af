"""One network of a tenant for programs, and all that belongs to it."""

from __future__ import annotations

import os
from typing import Any

from gpupool.client.messages import path_segment
from gpupool.client.networks.parts import NetworkParts, Shape
from gpupool.client.networks.waiting import wait_for
from gpupool.client.transport import Api
from gpupool.wire.network.dns_records import DnsRecordOut
from gpupool.wire.network.floating_ips import FloatingIpOut
from gpupool.wire.network.flows import FlowLogOut, FlowRecordsOut
from gpupool.wire.network.gateways import GatewayDrillOut
from gpupool.wire.network.lines import LineOut
from gpupool.wire.network.load_balancers import LoadBalancerOut
from gpupool.wire.network.mirrors import MirrorOut
from gpupool.wire.network.networks import NetworkOut, PeeringOut, ReachOut
from gpupool.wire.network.port_forwards import PortForwardOut
from gpupool.wire.network.promises import BandwidthLimitsOut
from gpupool.wire.network.routes import RouteOut
from gpupool.wire.network.security_groups import SecurityGroupOut


class Network:
    """One network by name. A handle: each use asks the pool."""

    def __init__(self, api: Api, name: str, tenant: str | None) -> None:
        self.name = name
        self._api = api
        self._tenant = tenant
        self._path = f"networks/{path_segment(name)}"

    def show(self) -> NetworkOut:
        """Return the network with its subnets and the jobs in it."""
        return NetworkOut.model_validate(self._ask("GET"))

    def delete(self) -> None:
        """Delete the network. Raises StillInUse while jobs or forwards are in it."""
        self._ask("DELETE")

    def create_subnet(self, cidr: str, name: str, *, cidr6: str | None = None) -> NetworkOut:
        """Add a subnet."""
        body = {"name": name, "cidr": cidr, "cidr6": cidr6}
        return NetworkOut.model_validate(self._ask("POST", "subnets", body))

    def delete_subnet(self, name: str) -> None:
        """Delete a subnet. Raises StillInUse while jobs are in it."""
        self._ask("DELETE", f"subnets/{path_segment(name)}")

    def set_default(self, *, is_default: bool = True) -> NetworkOut:
        """Choose the network for jobs of its tenant that name none."""
        return NetworkOut.model_validate(self._ask("PUT" if is_default else "DELETE", "default"))

    def create_gateway(self) -> NetworkOut:
        """Lead the network outside, and wait until its gateway is ready. Idempotent."""
        self._ask("PUT", "gateway")
        return wait_for(self.show, _has_pending_gateway, "the gateway")

    def delete_gateway(self) -> NetworkOut:
        """Cut the network off from what lies outside. Idempotent."""
        return NetworkOut.model_validate(self._ask("DELETE", "gateway"))

    def drill_gateway(self) -> GatewayDrillOut:
        """Move the gateways to the other machine of their pair and back, with probes (admins).

        Blocks until that is done; `outage_seconds` is the longest time without an answer.
        """
        made = self._ask("POST", "gateway/drills", {})

        def read() -> GatewayDrillOut:
            found = self._api.request("GET", f"network-gateway-drills/{made['id']}")
            return GatewayDrillOut.model_validate(found)

        return wait_for(read, lambda found: found.state == "running", "the drill")

    def check_reach(
        self, source: str, target: str, *, port: int | None = None, protocol: str = "tcp"
    ) -> ReachOut:
        """Say whether an address of the network reaches a target, and which object decides.

        Args:
            source: address of a job.
            target: name in the network, or an address.
        """
        query = {
            "source": source,
            "target": target,
            "port": port,
            "protocol": protocol,
            "tenant": self._tenant,
        }
        return ReachOut.model_validate(self._api.request("GET", f"{self._path}/reach", query=query))

    def show_limits(self) -> BandwidthLimitsOut:
        """Return the bandwidth limits, and whether each is in force."""
        return BandwidthLimitsOut.model_validate(self._ask("GET", "limits"))

    def set_limit(
        self,
        *,
        target: str | None = None,
        subject: str = "port",
        in_kbit: int | None = None,
        out_kbit: int | None = None,
    ) -> BandwidthLimitsOut:
        """Limit the bandwidth of a job, of each port or of the gateway. Replaces the one before.

        Args:
            target: a job, an array or a gang; None: each port, or the gateway.
            subject: `port` or `gateway`.
        """
        body = {"subject": subject, "target": target, "in_kbit": in_kbit, "out_kbit": out_kbit}
        return BandwidthLimitsOut.model_validate(self._ask("PUT", "limits", body))

    def delete_limit(self, limit: str) -> None:
        """Delete a bandwidth limit by its id."""
        self._ask("DELETE", f"limits/{path_segment(limit)}")

    def accept_peering(self, peering: str) -> PeeringOut:
        """Accept a peering that the owner of another network asks for, by its id."""
        path = f"peerings/{path_segment(peering)}/accept"
        return PeeringOut.model_validate(self._ask("POST", path))

    def create_rule(self, group: str, **fields: Any) -> SecurityGroupOut:
        """Add a rule to a security group.

        Args:
            fields: those of `gpupool.wire.network.security_groups.SecurityRuleIn`.
        """
        path = f"security-groups/{path_segment(group)}/rules"
        return SecurityGroupOut.model_validate(self._ask("POST", path, fields))

    def delete_rule(self, group: str, rule: str) -> None:
        """Delete a rule of a security group by its id."""
        self._ask("DELETE", f"security-groups/{path_segment(group)}/rules/{path_segment(rule)}")

    def set_certificate(self, balancer: str, certificate: str) -> LoadBalancerOut:
        """Replace the certificate of a load balancer of HTTP; PEM of the chain and its key."""
        path = f"load-balancers/{path_segment(balancer)}/certificate"
        body = {"certificate": certificate}
        return LoadBalancerOut.model_validate(self._ask("PUT", path, body))

    def drain(self, balancer: str, job: str) -> LoadBalancerOut:
        """Give a job behind a load balancer of HTTP no new requests."""
        path = f"load-balancers/{path_segment(balancer)}/drains"
        return LoadBalancerOut.model_validate(self._ask("POST", path, {"job": job}))

    def end_drain(self, balancer: str, job: str) -> LoadBalancerOut:
        """Give a drained job requests again."""
        path = f"load-balancers/{path_segment(balancer)}/drains/{path_segment(job)}"
        return LoadBalancerOut.model_validate(self._ask("DELETE", path))

    def read_flows(self, log: str, after: int = 0, *, limit: int = 1000) -> FlowRecordsOut:
        """Read records of a flow log behind a cursor, the oldest first."""
        path = f"{self._path}/flow-logs/{path_segment(log)}/records"
        query = {"after": after, "limit": limit, "tenant": self._tenant}
        return FlowRecordsOut.model_validate(self._api.request("GET", path, query=query))

    @property
    def load_balancers(self) -> NetworkParts[LoadBalancerOut]:
        return self._list_parts("load-balancers", LoadBalancerOut)

    @property
    def port_forwards(self) -> NetworkParts[PortForwardOut]:
        return self._list_parts("port-forwards", PortForwardOut)

    @property
    def floating_ips(self) -> NetworkParts[FloatingIpOut]:
        return self._list_parts("floating-ips", FloatingIpOut)

    @property
    def security_groups(self) -> NetworkParts[SecurityGroupOut]:
        return self._list_parts("security-groups", SecurityGroupOut)

    @property
    def peerings(self) -> NetworkParts[PeeringOut]:
        """Peerings of both directions; `delete` revokes one."""
        return self._list_parts("peerings", PeeringOut)

    @property
    def lines(self) -> NetworkParts[LineOut]:
        return self._list_parts("lines", LineOut)

    @property
    def routes(self) -> NetworkParts[RouteOut]:
        return self._list_parts("routes", RouteOut)

    @property
    def dns_records(self) -> NetworkParts[DnsRecordOut]:
        return self._list_parts("dns-records", DnsRecordOut)

    @property
    def flow_logs(self) -> NetworkParts[FlowLogOut]:
        return self._list_parts("flow-logs", FlowLogOut)

    @property
    def mirrors(self) -> NetworkParts[MirrorOut]:
        return self._list_parts("mirrors", MirrorOut)

    def _list_parts(self, kind: str, shape: type[Shape]) -> NetworkParts[Shape]:
        return NetworkParts(self._api, f"{self._path}/{kind}", shape, self._tenant)

    def _ask(self, method: str, path: str = "", body: object = None) -> Any:
        key = os.urandom(16).hex() if method == "POST" else None
        return self._api.request(
            method,
            f"{self._path}/{path}" if path else self._path,
            body,
            query={"tenant": self._tenant},
            idempotency_key=key,
        )


def _has_pending_gateway(network: NetworkOut) -> bool:
    return network.gateway is not None and network.gateway.state == "starting"
