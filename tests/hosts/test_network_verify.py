"""`network verify` on the real OVN: kept promises are proved, and broken ones are found."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.agent.network.verification.isolation import check_isolation
from gpupool.wire.network.promises import ProbePort
from tests.e2e.pool_fixture import RealPool
from tests.support.network_pool import OVN_MARKS, find_end, locate_files, network_pool
from tests.support.pages import PAGES
from tests.support.typed_commands import commands

pytestmark = OVN_MARKS


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with network_pool() as made:
        for network, jobs in (("a", ("x", "y")), ("b", ("z",))):
            made.do("network", "create", network, "--cidr", "10.0.0.0/24")
            for name in jobs:
                words = ("submit", "--network", network, "--gpu", "0.1", "--name", name)
                made.do(*words, "--", "sleep", "600")
                made.until_state(name, "running")
        yield made
        made.stop_all()
        made.do("network", "disable", "--yes")


def list_namespaces(pool: RealPool) -> set[str]:
    return {path.name for path in Path("/run/netns").glob(f"gpupool-{locate_files(pool).mark}*")}


def index(checks: list[dict[str, Any]]) -> dict[str, bool | None]:
    return {check["name"]: check["kept"] for check in checks}


def test_promises_of_a_sound_pool_are_kept_and_nothing_is_left(pool: RealPool) -> None:
    before = list_namespaces(pool)
    pool.do("network", "limit-set", "a", "--job", "x", "--out", "20M")
    pool.until(
        lambda: pool.json("network", "limit-list", "a")["states"][0]["outward"]["state"] == "set",
        "the limit in force",
    )
    found = pool.json("network", "verify")
    kept = index(found["checks"])
    for kind in ("udp", "tcp", "icmp", "arp", "forged-source", "forged-mac", "forged-arp", "ipv6"):
        assert kept[f"isolation/{kind}"] is True, found
    for kind in ("forged-source", "forged-mac", "forged-arp", "ipv6"):
        assert kept[f"port-security/{kind}"] is True, found
    assert kept["drift"] is kept["dns/a"] is kept["dns/b"] is True
    assert found["kept"] is True
    # A machine that is too busy to send as much proves no limit, and breaks none.
    assert kept["limit/out/a/x"] is not False
    (limit,) = pool.json("network", "limit-list", "a")["states"]
    state = "verified" if kept["limit/out/a/x"] else "set"
    assert limit["outward"]["state"] == state
    assert list_namespaces(pool) == before
    rows = ["ovn-nbctl", f"--db={locate_files(pool).remote('northbound')}", "--bare"]
    listed = [*rows, "--columns=name", "find", "logical_switch"]
    pool.until(
        lambda: found["id"] not in subprocess.check_output(listed, text=True),
        "the end of the networks that were made for it",
    )


def test_a_network_that_leaks_is_found(pool: RealPool) -> None:
    """Neighbours within one network, taken for strangers: every honest packet passes."""
    ports = {one["job_name"]: one for one in pool.json("network", "show", "a")["ports"]}
    made = dict[str, ProbePort]()
    for name, port in ports.items():
        made[name] = ProbePort(
            key=name,
            network="a",
            name=name,
            address=port["address"],
            prefix=24,
            gateway="10.0.0.1",
            mac=port["mac"],
            mtu=1442,
            domain="a",
        )
    places = {name: find_end(pool, "a", name).namespace for name in made}
    outsider = made["y"].model_copy(update={"key": "outsider"})
    checks = check_isolation(made["x"], made["y"], [outsider], {**places, "outsider": places["y"]})
    kept = {check.name: check.kept for check in checks}
    for kind in ("udp", "tcp", "icmp", "arp"):
        assert kept[f"isolation/{kind}"] is False, checks
    assert kept["isolation/forged-source"] is True


def test_a_verification_that_is_killed_leaves_nothing(pool: RealPool) -> None:
    before = list_namespaces(pool)
    running = pool.start("network", "verify")
    pool.until(lambda: list_namespaces(pool) > before, "ports to probe with")
    os.kill(pool.server_pid(), signal.SIGKILL)
    running.kill()
    running.communicate()
    assert list_namespaces(pool) > before
    pool.up()
    pool.until(lambda: list_namespaces(pool) == before, "the end of the ports")
    pool.until(lambda: pool.run("network", "verify", "b").returncode == 0, "another verification")
    assert list_namespaces(pool) == before


def test_commands_of_the_page_work_in_their_order(pool: RealPool) -> None:
    for words in commands(PAGES / "network-verify.md"):
        pool.do(*words)
        if words[0] == "submit":
            pool.until_state("server", "running")
