"""Decides whether a job reaches a target, and which object decides. Pure.

It reads the same values that `northbound` compiles, so it says what is in force once the engine has
it. What belongs to the owner of a peered network stays unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address, ip_address

from gpupool.network.balancing.model import LoadBalancer
from gpupool.network.floating.model import bind_ports
from gpupool.network.model import Gateway, Network, Port
from gpupool.network.routing.route_table import TableRoute, build_table, find_route
from gpupool.network.security.model import SecurityGroup, SecurityRule


@dataclass(frozen=True)
class Traffic:
    """What is sent.

    Attributes:
        port: destination port; None: any.
        is_ipv6: whether it is sent over IPv6.
    """

    protocol: str = "tcp"
    port: int | None = None
    is_ipv6: bool = False


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
        target: an address, or a DNS name of the network, which stands for its address of the
            traffic's family.
    """
    address = _parse_address(target)
    if address is not None:
        traffic = replace(traffic, is_ipv6=isinstance(address, IPv6Address))
    if traffic.is_ipv6 and source.address6 is None:
        return _refuse_ipv6(network, source)
    found = _find_target(network, target, traffic)
    if isinstance(found, LoadBalancer):
        return _decide_balancer(network, source, found, traffic)
    if isinstance(found, Port):
        if traffic.is_ipv6 and found.address6 is None:
            return _refuse_ipv6(network, found)
        return _decide_port(network, source, found, traffic)
    if found is None:
        return Reach(
            False,
            "DNS",
            f"network {network.name} has no name {target!r}, and no job of that name is in it now",
            f"gpupool network show {network.name}",
        )
    return _decide_address(network, source, found)


def _parse_address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _refuse_ipv6(network: Network, port: Port) -> Reach:
    name = next(subnet.name for subnet in network.subnets if subnet.key == port.subnet)
    return Reach(
        False,
        f"subnet {name}",
        f"{port.name} has no IPv6 address, for its subnet has no IPv6 prefix",
        f"gpupool network subnet-create {network.name} --cidr PREFIX --cidr6 auto",
    )


def _find_target(
    network: Network, target: str, traffic: Traffic
) -> LoadBalancer | Port | IPv4Address | IPv6Address | None:
    name = target.lower().removesuffix(f".{network.domain}")
    address = _parse_address(target)
    found = _find_member(network, name, address)
    if found is None and address is None:
        for record in network.records:
            if record.name == name and isinstance(record.address, IPv6Address) == traffic.is_ipv6:
                # A record may have the address of a job.
                return _find_member(network, "", record.address) or record.address
    return found or address


def _find_member(
    network: Network, name: str, address: IPv4Address | IPv6Address | None
) -> LoadBalancer | Port | None:
    """Find what has a name or an address in a network; None: neither a job nor a load balancer."""
    for balancer in network.balancers:
        if name == balancer.dns_name or _has_address(balancer, address):
            return balancer
    for port in network.ports:
        if name == port.name or _has_address(port, address):
            return port
    return None


def _has_address(one: LoadBalancer | Port, address: IPv4Address | IPv6Address | None) -> bool:
    return address is not None and address in (one.address, one.address6)


def _decide_address(network: Network, source: Port, address: IPv4Address | IPv6Address) -> Reach:
    own = source.address if isinstance(address, IPv4Address) else source.address6
    if own is not None:
        route = find_route(build_table(network), source.subnet, own, address)
        if route is not None and route.kind == "static":
            return _decide_static(network, route, address)
    for subnet in network.subnets:
        for prefix in (subnet.cidr, subnet.cidr6):
            if prefix is not None and address in prefix:
                return Reach(
                    False,
                    f"subnet {subnet.name}",
                    f"no job has {address} of {prefix} now",
                    f"gpupool network show {network.name}",
                )
    for end in network.peerings:
        if any(address in prefix for prefix in end.all_prefixes):
            if own is not None and any(own in prefix for prefix in end.hidden):
                reason = f"the other owner has not accepted the subnet of {own}"
                hint = f"it does so with: gpupool network peering-accept NAME {end.key}"
                return Reach(False, f"peering {end.key}", reason, hint)
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
    bound = bind_ports(network.floating_ips, network.ports)
    for floating, port in bound:
        if address == floating.address:
            return Reach(
                False,
                f"floating IP {address}",
                f"it is {port.name}'s for what lies outside; jobs of the pool do not reach it",
                f"gpupool network why {source.name} {port.address}",
            )
    if network.gateway is not None:
        outer = next((one for one, port in bound if port.address == source.address), None)
        if outer is None or isinstance(address, IPv6Address):
            return _decide_outside(network, network.gateway, address)
        return Reach(
            None,
            f"floating IP {outer.address}",
            f"packets to {address} leave the pool as {outer.address}; what lies outside decides",
        )
    return Reach(
        False,
        f"network {network.name}",
        f"{address} is outside of the network, which has no gateway, and no peering or dedicated line to it",
        f"gpupool network gateway-create {network.name}",
    )


def _decide_outside(
    network: Network, gateway: Gateway, address: IPv4Address | IPv6Address
) -> Reach:
    own = gateway.address if isinstance(address, IPv4Address) else gateway.address6
    if own is None:
        return Reach(
            False,
            f"gateway of {network.name}",
            f"{address} is outside of the network and its peerings, and gateways of this pool and "
            "dedicated lines carry IPv4 alone",
            "an admin lets gateways carry IPv6: gpupool network enable --gateway-ipv6 on",
        )
    return Reach(
        None,
        f"gateway of {network.name}",
        f"packets to {address} leave the pool as {own}, translated to the machine's address; what "
        "lies outside decides",
    )


def _decide_static(
    network: Network, route: TableRoute, address: IPv4Address | IPv6Address
) -> Reach:
    name = f"route {route.key} to {route.prefix}"
    hint = f"gpupool network route-list {network.name}"
    if route.via is None:
        return Reach(False, name, f"it discards packets to {address}", hint)
    for port in network.ports:
        if route.via in (port.address, port.address6):
            return Reach(
                None,
                name,
                f"packets to {address} go to {port.name} ({route.via}); what it does with them "
                "decides",
                hint,
            )
    return Reach(
        False, name, f"packets to {address} go to {route.via}, and no job has it now", hint
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
    if traffic.is_ipv6 and balancer.address6 is None:
        return Reach(
            False,
            name,
            "it has no IPv6 address, for its proxy is in a subnet without an IPv6 prefix",
            f"gpupool network lb-list {network.name} -o wide",
        )
    if balancer.proxy is not None:
        hint = f"gpupool network lb-show {network.name} {balancer.name}"
        return Reach(True, name, "its proxy answers, whether or not jobs serve behind it", hint)
    backends = [port for port in network.ports if balancer.has_backend(port.name)]
    if traffic.is_ipv6:
        backends = [port for port in backends if port.address6 is not None]
    if not backends:
        having = " and has an IPv6 address" if traffic.is_ipv6 else ""
        return Reach(
            False,
            name,
            f"no job of {', '.join(balancer.backends)} runs in the network{having}: clients are "
            "refused",
            "gpupool ps",
        )
    inner = Traffic(balancer.protocol, balancer.target_port, traffic.is_ipv6)
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
    address = _choose_source(source, traffic)
    return Reach(
        False,
        f"security group {names}",
        f"{source.name} is no member, and no rule takes {_describe(traffic)} from "
        f"{address}{_list_open(groups, source, traffic)}",
        f"gpupool network group-allow {network.name} {groups[0].name} {_describe(traffic)} "
        f"--from {address}/{address.max_prefixlen}",
    )


def _choose_source(source: Port, traffic: Traffic) -> IPv4Address | IPv6Address:
    return source.address6 if traffic.is_ipv6 and source.address6 else source.address


def _takes(rule: SecurityRule, source: Port, traffic: Traffic) -> bool:
    if rule.group is not None and rule.group not in source.groups:
        return False
    if rule.prefix is not None and _choose_source(source, traffic) not in rule.prefix:
        return False
    if rule.protocol == "any":
        return True
    if rule.protocol != traffic.protocol:
        return False
    if rule.first_port is None or rule.last_port is None:
        return True
    # Without a port the question is about all of them.
    return traffic.port is not None and rule.first_port <= traffic.port <= rule.last_port


def _list_open(groups: Iterable[SecurityGroup], source: Port, traffic: Traffic) -> str:
    """List the ports that rules take from the source, as the end of a sentence."""
    open_ports = list[str]()
    for group in groups:
        for rule in group.rules:
            if rule.first_port is None:
                continue
            if _takes(rule, source, Traffic(rule.protocol, rule.first_port, traffic.is_ipv6)):
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
