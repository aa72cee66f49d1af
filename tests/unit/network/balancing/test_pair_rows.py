"""Rows of load balancers with two proxies: written once, then moved by the machines."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address

from gpupool.network.balancing import pair_rows
from gpupool.network.balancing.model import LoadBalancer
from gpupool.network.balancing.proxy_model import ProxyPort
from gpupool.network.balancing.rows import compile_balancer, key_balancer
from gpupool.network.forwarding.model import PortForward
from gpupool.network.forwarding.rows import compile_forward
from gpupool.network.model import Gateway, Network, make_proxy_mac
from gpupool.network.northbound import compile_network
from gpupool.network.rows import NorthboundRow, plan_changes
from tests.unit.network.networks import make_network

STANDBY = ProxyPort("h-2", 7, "s-0000000001", IPv4Address("10.0.0.6"), (80, 443), is_standby=True)
PROXY = ProxyPort("h-1", 7, "s-0000000001", IPv4Address("10.0.0.5"), (80, 443), standby=STANDBY)
WEB = LoadBalancer(7, "b-web", "web", "tcp", 80, 8000, ("web",), False, PROXY)
GATEWAY = Gateway(
    IPv4Address("198.18.0.5"), IPv4Network("198.18.0.0/16"), IPv4Address("198.18.0.1")
)
SINGLE = replace(WEB, proxy=replace(PROXY, standby=None))


def make_row(balancer: LoadBalancer = WEB) -> NorthboundRow:
    (row,) = compile_balancer(balancer, ())
    return row


def read_vips(row: NorthboundRow) -> dict[str, str]:
    vips = row.initial["vips"]
    assert isinstance(vips, dict)
    return vips


def read_pair(row: NorthboundRow) -> pair_rows.ProxyPair:
    options = row.initial["options"]
    assert isinstance(options, dict)
    pair = pair_rows.read_pair(options)
    assert pair is not None
    return pair


def test_a_row_leads_to_the_first_machine_at_first_and_to_either_later() -> None:
    row = make_row()
    pair = read_pair(row)
    vips = read_vips(row)
    assert pair == pair_rows.ProxyPair(("h-1", "h-2"), (("10.0.0.5",), ("10.0.0.6",)))
    assert pair_rows.find_place(vips, pair) == 0
    moved = pair_rows.move_targets(vips, pair, 1)
    assert moved == {"100.126.0.8:80": "10.0.0.6:80", "100.126.0.8:443": "10.0.0.6:443"}
    assert pair_rows.find_place(moved, pair) == 1
    assert pair_rows.move_targets(moved, pair, 0) == vips
    assert pair_rows.find_place({"100.126.0.8:80": "10.0.0.7:80"}, pair) is None


def test_targets_of_both_families_move() -> None:
    pair = pair_rows.ProxyPair(
        ("h-1", "h-2"), (("10.0.0.5", "[fd00::5]"), ("10.0.0.6", "[fd00::6]"))
    )
    vips = {"100.126.0.8:80": "10.0.0.5:80", "[fd00::8]:80": "[fd00::5]:80"}
    assert pair_rows.find_place(vips, pair) == 0
    moved = pair_rows.move_targets(vips, pair, 1)
    assert moved == {"100.126.0.8:80": "10.0.0.6:80", "[fd00::8]:80": "[fd00::6]:80"}
    assert pair_rows.find_place(moved, pair) == 1
    assert pair_rows.find_place({**vips, "100.126.0.8:80": "10.0.0.6:80"}, pair) is None


def test_the_server_takes_nothing_back_that_a_machine_has_moved() -> None:
    row = make_row()
    moved = pair_rows.move_targets(read_vips(row), read_pair(row), 1)
    columns = {**row.columns, "vips": moved, "options": {"ct_flush": "true"}}
    there = NorthboundRow(row.table, row.key, columns, row.references)
    assert not plan_changes([row], {row.key: there})


def test_another_pair_is_another_row() -> None:
    other = replace(PROXY, standby=replace(STANDBY, address=IPv4Address("10.0.0.9")))
    keys = [make_row(one).key for one in (SINGLE, WEB, replace(WEB, proxy=other))]
    assert len(set(keys)) == 3
    assert keys[0] == "lb/b-web"
    assert [key_balancer(one) for one in (SINGLE, WEB)] == keys[:2]
    assert (make_row(SINGLE).initial, make_row(SINGLE).columns["options"]) == (
        {},
        {"reject": "true"},
    )


def test_a_machine_says_that_its_proxy_is_ready_and_not_for_the_other_one() -> None:
    marks = pair_rows.mark_ready({"gpupool-key": "x"}, 1, ready=True)
    assert (pair_rows.is_ready(marks, 0), pair_rows.is_ready(marks, 1)) == (False, True)
    assert pair_rows.mark_ready(marks, 1, ready=False) == {"gpupool-key": "x"}


def test_a_forward_to_a_load_balancer_moves_with_it() -> None:
    forward = PortForward("w-1", "tcp", 30100, "web", 443)
    row = compile_forward(forward, GATEWAY, (), [WEB])
    assert read_vips(row) == {"198.18.0.5:30100": "10.0.0.5:443"}
    assert read_pair(row).keys == ("h-1", "h-2")
    # One whose gateway has another address is another row.
    moved = replace(GATEWAY, address=IPv4Address("198.18.0.6"))
    assert compile_forward(forward, moved, (), [WEB]).key != row.key
    single = compile_forward(forward, GATEWAY, (), [SINGLE])
    assert (single.key, single.initial) == ("forward/w-1", {})


def test_what_leads_to_a_pair_over_ipv6_moves_too() -> None:
    standby = replace(STANDBY, address6=IPv6Address("fd00::6"))
    proxy = replace(PROXY, address6=IPv6Address("fd00::5"), standby=standby)
    balancer = replace(WEB, proxy=proxy)
    gateway = replace(GATEWAY, address6=IPv6Address("fd01::5"))
    forward = compile_forward(PortForward("w-1", "tcp", 30100, "web", 443), gateway, (), [balancer])
    for row, address in ((make_row(balancer), f"[{balancer.address6}]"), (forward, "[fd01::5]")):
        pair = read_pair(row)
        assert pair.hosts == (("10.0.0.5", "[fd00::5]"), ("10.0.0.6", "[fd00::6]"))
        moved = pair_rows.move_targets(read_vips(row), pair, 1)
        assert pair_rows.find_place(moved, pair) == 1
        assert any(vip.startswith(address) for vip in moved)


def compile_rows(network: Network) -> dict[str, NorthboundRow]:
    return {row.key: row for row in compile_network(network)}


def test_both_proxies_have_ports_of_their_own() -> None:
    rows = compile_rows(replace(make_network(1, 1), balancers=(WEB,)))
    first = rows["port/h-1"].columns["addresses"]
    second = rows["port/h-2"].columns["addresses"]
    assert first == (f"{make_proxy_mac(7)} 10.0.0.5",)
    assert second == (f"{make_proxy_mac(7, is_standby=True)} 10.0.0.6",)
    switch = rows["switch/s-0000000001"]
    assert {"port/h-1", "port/h-2"} <= switch.references["ports"]
    assert switch.references["load_balancer"] == {make_row().key}


def test_a_row_is_armed_for_the_move_from_a_dead_machine_alone() -> None:
    options = make_row().initial["options"]
    assert isinstance(options, dict)
    assert not pair_rows.is_armed(options)
    armed = pair_rows.arm(options, armed=True)
    assert pair_rows.is_armed(armed)
    assert pair_rows.arm(armed, armed=False) == options
