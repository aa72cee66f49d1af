"""A floating IP is one job's, and its address on the uplink is no gateway's."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

import pytest

from gpupool.network.floating.model import (
    INNER_NUMBERS,
    FloatingIp,
    bind_ports,
    make_inner_address,
)
from gpupool.network.gateways.model import GATEWAY_NUMBERS
from gpupool.network.model import Port, make_gateway

UPLINK = IPv4Network("198.18.0.0/16")
OUTER = IPv4Address("203.0.113.40")


def make_floating(target: str, number: int = 1) -> FloatingIp:
    inner = make_inner_address(number, UPLINK)
    return FloatingIp(f"i-{number}", OUTER + number, inner, target)


def make_port(number: int, name: str) -> Port:
    return Port(number, f"n-{number}", "s-1", IPv4Address("10.0.0.10") + number, name)


def test_addresses_on_the_uplink_are_apart_from_gateways_and_in_the_prefix() -> None:
    ends = ({0, *INNER_NUMBERS[::1000], INNER_NUMBERS[-1]}, {0, *GATEWAY_NUMBERS[::1000]})
    inner = {make_inner_address(number, UPLINK) for number in ends[0]}
    gateways = {make_gateway(number, UPLINK).address for number in ends[1] | {GATEWAY_NUMBERS[-1]}}
    assert not inner & gateways
    assert not (inner | gateways) & {UPLINK[0], UPLINK[1], UPLINK[-1]}
    assert all(address in UPLINK for address in inner | gateways)
    # Gateways of pools that have them already stay where they are.
    assert make_gateway(1, UPLINK).address == UPLINK[3]


@pytest.mark.parametrize(("target", "number"), [("web", 1), ("10.0.0.12", 2), ("none", None)])
def test_a_target_is_a_name_or_an_address(target: str, number: int | None) -> None:
    ports = [make_port(1, "web"), make_port(2, "other")]
    bound = [port.id for _, port in bind_ports([make_floating(target)], ports)]
    assert bound == ([] if number is None else [number])


def test_the_first_job_of_a_name_and_the_first_address_of_a_job_are_taken() -> None:
    ports = [make_port(1, "web"), make_port(2, "web")]
    floating = [make_floating("web"), make_floating("10.0.0.11", 2), make_floating("10.0.0.12", 3)]
    bound = [(one.key, port.id) for one, port in bind_ports(floating, ports)]
    assert bound == [("i-1", 1), ("i-3", 2)]
