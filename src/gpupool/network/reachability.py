"""Decides whether a job reaches a target, and which object decides. Pure.

It reads the same values that `northbound` compiles, so it says what is in force once the engine has
it. What belongs to the owner of a peered network stays unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address

from gpupool.network.balancing.model import LoadBalancer
from gpupool.network.model import Network, Port
from gpupool.network.security.model import SecurityGroup, SecurityRule


@dataclass(frozen=True)
class Traffic:
    """What is sent.

    Attributes:
        port: destination port; None: any.
    """

    protocol: str = "tcp"
    port: int | None = None


@dataclass(frozen=True)
class Reach:
    """Whether packets get through.

    Attributes:
        is_reached: None where another owner's rules decide.
        object: what decides, as `security group web`.
        reason: one sentence.
        hint: the command that changes it; empty where there is none.
    """

    is_reached: bool | None
    object: str
    reason: str
    hint: str = ""


def decide_reach(network: Network, source: Port, target: str, traffic: Traffic) -> Reach:
    """Decide whether a port of a network reaches a target.

    Args:
        target: an address, or a DNS name of the network.
    """
    found = _find_target(network, target)
    if isinstance(found, LoadBalancer):
        return _decide_balancer(network, source, found, traffic)
    if isinstance(found, Port):
        return _decide_port(network, source, found, traffic)
    if found is None:
        return Reach(
            False,
            "DNS",
            f"network {network.name} has no name {target!r}, and no job of that name is in it now",
            f"gpupool network show {network.name}",
        )
    return _decide_address(network, found)


def _find_target(network: Network, target: str) -> LoadBalancer | Port | IPv4Address | None:
    name = target.lower().removesuffix(f".{network.domain}")
    for balancer in network.balancers:
        if name == balancer.name.lower() or target == str(balancer.address):
            return balancer
    for port in network.ports:
        if name == port.name or target == str(port.address):
            return port
    try:
        return IPv4Address(target)
    except ValueError:
        return None


def _decide_address(network: Network, address: IPv4Address) -> Reach:
    for subnet in network.subnets:
        if address in subnet.cidr:
            return Reach(
                False,
                f"subnet {subnet.name}",
                f"no job has {address} of {subnet.cidr} now",
                f"gpupool network show {network.name}",
            )
    for end in network.peerings:
        if any(address in prefix for prefix in end.prefixes):
            return Reach(
                None,
                f"peering {end.key}",
                f"packets to {address} go through the peering; security groups of the other owner decide there",
            )
    for line in network.lines:
        if any(address in prefix for prefix in (line.link, *line.list_routes())):
            return Reach(
                None,
                f"dedicated line {line.key}",
                f"packets to {address} go over the line of VLAN {line.vlan} to {line.peer}; what lies "
                "behind it decides",
            )
    if network.gateway is not None:
        return Reach(
            None,
            f"gateway of {network.name}",
            f"packets to {address} leave the pool as {network.gateway.address}, translated to the "
            "machine's address; what lies outside decides",
        )
    return Reach(
        False,
        f"network {network.name}",
        f"{address} is outside of the network, which has no gateway, and no peering or dedicated line to it",
        f"gpupool network gateway-create {network.name}",
    )


def _decide_balancer(
    network: Network, source: Port, balancer: LoadBalancer, traffic: Traffic
) -> Reach:
    name = f"load balancer {balancer.name}"
    wanted = [(balancer.protocol, port) for port in balancer.listeners]
    if traffic.port is not None and (traffic.protocol, traffic.port) not in wanted:
        served = " and ".join(f"{protocol}:{port}" for protocol, port in wanted)
        return Reach(
            False,
            name,
            f"it serves {served} alone",
            f"gpupool network lb-list {network.name}",
        )
    if balancer.proxy is not None:
        hint = f"gpupool network lb-show {network.name} {balancer.name}"
        return Reach(True, name, "its proxy answers, whether or not jobs serve behind it", hint)
    backends = [port for port in network.ports if balancer.has_backend(port.name)]
    if not backends:
        return Reach(
            False,
            name,
            f"no job of {', '.join(balancer.backends)} runs in the network: clients are refused",
            "gpupool ps",
        )
    inner = Traffic(balancer.protocol, balancer.target_port)
    answers = [_decide_port(network, source, port, inner) for port in backends]
    open_count = sum(answer.is_reached is True for answer in answers)
    if open_count == len(answers):
        return Reach(True, name, f"all {len(answers)} jobs behind it take the connection")
    refusal = next(answer for answer in answers if not answer.is_reached)
    return Reach(
        False,
        refusal.object,
        f"{open_count} of {len(answers)} jobs behind load balancer {balancer.name} take the "
        f"connection; {refusal.reason}",
        refusal.hint,
    )


def _decide_port(network: Network, source: Port, target: Port, traffic: Traffic) -> Reach:
    groups = [group for group in network.groups if group.key in target.groups]
    if not groups:
        return Reach(
            True,
            f"network {network.name}",
            f"{target.name} is in no security group, so every job of the network reaches it",
        )
    names = ", ".join(group.name for group in groups)
    for group in groups:
        if group.key in source.groups:
            return Reach(True, f"security group {group.name}", "both are members of it")
        for rule in group.rules:
            if _takes(rule, source, traffic):
                return Reach(
                    True, f"security group {group.name}", f"its rule {rule.key} takes the packets"
                )
    return Reach(
        False,
        f"security group {names}",
        f"{source.name} is no member, and no rule takes {_describe(traffic)} from "
        f"{source.address}{_list_open(groups, source)}",
        f"gpupool network group-allow {network.name} {groups[0].name} {_describe(traffic)} "
        f"--from {source.address}/32",
    )


def _takes(rule: SecurityRule, source: Port, traffic: Traffic) -> bool:
    if rule.group is not None and rule.group not in source.groups:
        return False
    if rule.prefix is not None and source.address not in rule.prefix:
        return False
    if rule.protocol == "any":
        return True
    if rule.protocol != traffic.protocol:
        return False
    if rule.first_port is None or rule.last_port is None:
        return True
    # Without a port the question is about all of them.
    return traffic.port is not None and rule.first_port <= traffic.port <= rule.last_port


def _list_open(groups: Iterable[SecurityGroup], source: Port) -> str:
    """List the ports that rules take from the source, as the end of a sentence."""
    open_ports = list[str]()
    for group in groups:
        for rule in group.rules:
            if rule.first_port is None:
                continue
            if _takes(rule, source, Traffic(rule.protocol, rule.first_port)):
                open_ports.append(describe_rule_ports(rule))
    return f"; rules take {', '.join(open_ports)}" if open_ports else ""


def describe_rule_ports(rule: SecurityRule) -> str:
    """Describe the traffic of a rule as `tcp:80-90`."""
    if rule.first_port is None:
        return rule.protocol
    if rule.first_port == rule.last_port:
        return f"{rule.protocol}:{rule.first_port}"
    return f"{rule.protocol}:{rule.first_port}-{rule.last_port}"


def _describe(traffic: Traffic) -> str:
    return traffic.protocol if traffic.port is None else f"{traffic.protocol}:{traffic.port}"
