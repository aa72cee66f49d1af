"""Load balancers of HTTP on a pair of machines with the real OVN and HAProxy: kills, deaths, drains."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts.http_jobs import Load
from tests.support.gateway_pool import list_proxies
from tests.support.http_pair import THREADS, HttpPair, find_missing_parts, http_pair

_MISSING = find_missing_parts()
pytestmark = [
    pytest.mark.hosts,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(bool(_MISSING), reason=f"needs {', '.join(_MISSING)}"),
]

#: A promise of 1 s, on a machine that other tests use too.
MOST_SECONDS = 3.0


@pytest.fixture(scope="module")
def pair() -> Iterator[HttpPair]:
    with http_pair() as made:
        yield made


def show(what: str, load: Load) -> None:
    answered = sum(load.names.values())
    failed = len(load.failures)
    print(f"{what}: {answered} answered, {failed} failed, {load.gap:.2f} s without an answer")


def test_a_killed_proxy_is_replaced_by_the_other_machine(pair: HttpPair) -> None:
    active = pair.machines.find_active()
    pair.wait_for_serving(active)
    with pair.begin_load() as load:
        pair.kill_proxies(active)
        pair.wait_until_served(pair.machines.find_peer(active))
    show("a killed proxy", load)
    assert load.gap < MOST_SECONDS
    # It was restarted, and gets new connections back without a failure.
    with pair.begin_load() as load:
        pair.wait_for_serving(active)
    show("its return", load)
    assert load.failures == []


def test_a_drain_fails_no_request(pair: HttpPair) -> None:
    active = pair.machines.find_active()
    peer = pair.machines.find_peer(active)
    pair.wait_for_serving(active)
    stream = pair.client.begin_stream(f"{pair.url}/stream")
    stream.wait_for_lines()
    with pair.begin_load() as load, pair.begin_outer_load() as outer:
        shown = pair.pool.json("network", "gateway-drain", active.name)
        assert {one["node"]: one["balancers"] for one in shown["machines"]}[active.name] == 0
        pair.wait_until_served(peer)
    show("a drain", load)
    show("a drain, seen from outside", outer)
    assert load.failures == []
    # A request that is under way while the gateways themselves move may be lost.
    assert len(outer.failures) <= 1
    assert outer.gap < MOST_SECONDS + 5
    assert sum(load.names.values()) > 100
    # An answer that takes long ends where it began.
    assert stream.finish() == [str(number) for number in range(40)]
    pair.pool.do("network", "gateway-drain", active.name, "--undo")
    pair.machines.wait_for_roles(peer, "standby")


def test_a_dead_machine_is_replaced_by_the_other_one(pair: HttpPair) -> None:
    lost = pair.machines.find_active()
    peer = pair.machines.find_peer(lost)
    pair.wait_for_serving(lost)
    with pair.begin_load() as load:
        pair.kill_machine(lost)
        pair.wait_until_served(peer)
        asked = time.monotonic()
        assert pair.client.status(pair.url) == 200
        assert time.monotonic() - asked < MOST_SECONDS
    show("a dead machine", load)
    assert load.gap < MOST_SECONDS
    # What it was answering is lost, and no more than that.
    assert len(load.failures) <= 2 * THREADS
    pair.machines.revive_node(lost)
    pair.wait_for_serving(peer)


def test_without_the_pair_the_centre_serves(pair: HttpPair) -> None:
    pair.pool.do("network", "gateway-unpair", "--yes")
    pair.pool.until(
        lambda: pair.read_roles() == {"sim-0": ("serving", "ready")}, "the centre that serves"
    )
    pair.pool.until(lambda: pair.client.status(pair.url) == 200, "an answer")
    for member in pair.machines.members:
        pair.pool.until(lambda member=member: list_proxies(member) == [], "no proxy")
        root = Path(f"/run/gpupool-network-{member.mark}/proxies")
        pair.pool.until(lambda root=root: not list(root.iterdir()), "no directory of a proxy")
