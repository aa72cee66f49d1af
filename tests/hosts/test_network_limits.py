"""Bandwidth limits on the real OVN: in force for packets, read back, and put back where lost."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from gpupool.agent.network.verification.traffic import TrafficPlan, TrafficProtocol, measure_path
from tests.e2e.pool_fixture import RealPool
from tests.support.network_pool import OVN_MARKS, find_end, locate_files, network_pool
from tests.support.pages import PAGES
from tests.support.typed_commands import commands

pytestmark = OVN_MARKS
LIMIT = 20_000


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with network_pool() as made:
        made.do("network", "create", "a", "--cidr", "10.0.0.0/24")
        for name in ("x", "y"):
            words = ("submit", "--network", "a", "--gpu", "0.1", "--name", name)
            made.do(*words, "--", "sleep", "600")
            made.until_state(name, "running")
        yield made
        made.stop_all()
        made.do("network", "disable", "--yes")


def list_states(pool: RealPool, network: str = "a") -> dict[str, tuple[Any, ...]]:
    states = pool.json("network", "limit-list", network)["states"]
    return {
        one["name"]: (
            one["inward"]["kbit"],
            one["inward"]["state"],
            one["outward"]["kbit"],
            one["outward"]["state"],
        )
        for one in states
    }


def measure(pool: RealPool, source: str, target: str, protocol: TrafficProtocol) -> int:
    plan = TrafficPlan(protocol, 2 * LIMIT, seconds=1.0, start_seconds=0.5)
    ends = [find_end(pool, "a", name) for name in (source, target)]
    return measure_path(ends[0], ends[1], plan).received_kbit


def is_near(kbit: int) -> bool:
    assert kbit <= LIMIT * 1.05
    # Other programs of a test's machine slow packets down; nothing makes them faster.
    return kbit >= LIMIT * 0.75


def test_a_limit_of_a_job_holds_in_both_directions_and_for_no_other_job(pool: RealPool) -> None:
    pool.do("network", "limit-set", "a", "--job", "x", "--in", "20M", "--out", "20M")
    pool.until(lambda: list_states(pool) == {"x": (LIMIT, "set", LIMIT, "set")}, "limits in force")
    for protocol in ("tcp", "udp"):
        for ends in (("y", "x"), ("x", "y")):
            pool.until(lambda p=protocol, e=ends: is_near(measure(pool, *e, p)), protocol)  # type: ignore[misc]
    (limit,) = pool.json("network", "limit-list", "a")["limits"]
    pool.do("network", "limit-delete", "a", limit["id"])
    pool.until(lambda: measure(pool, "x", "y", "udp") > 1.5 * LIMIT, "the end of the limit")
    assert list_states(pool) == {}
    assert measure(pool, "y", "x", "udp") > 1.5 * LIMIT


def test_the_switch_stops_a_job_that_takes_its_own_shaping_away(pool: RealPool) -> None:
    pool.do("network", "limit-set", "a", "--job", "x", "--out", "20M")
    pool.until(lambda: list_states(pool) == {"x": (None, "none", LIMIT, "set")}, "limits in force")
    namespace = find_end(pool, "a", "x").namespace.name
    remove = ["ip", "netns", "exec", namespace, "tc", "qdisc", "del", "dev", "eth0", "root"]
    subprocess.run(remove, check=True)
    # A burst of a second passes; what follows does not.
    plan = TrafficPlan("udp", 4 * LIMIT, seconds=1.0, start_seconds=1.5)
    ends = [find_end(pool, "a", name) for name in ("x", "y")]
    rate = measure_path(ends[0], ends[1], plan)
    assert rate.sent_kbit > 1.5 * LIMIT
    # The rest of the burst, where the sender was slow.
    assert rate.received_kbit < 1.25 * LIMIT
    (limit,) = pool.json("network", "limit-list", "a")["limits"]
    pool.do("network", "limit-delete", "a", limit["id"])


def test_limits_survive_the_server_the_agent_and_the_switch(pool: RealPool) -> None:
    pool.do("network", "limit-set", "a", "--in", "20M", "--out", "20M")
    both = dict.fromkeys(("x", "y"), (LIMIT, "set", LIMIT, "set"))
    pool.until(lambda: list_states(pool) == both, "limits in force")
    os.kill(pool.server_pid(), signal.SIGKILL)
    pool.up()
    assert is_near(measure(pool, "x", "y", "udp"))
    run = locate_files(pool).run
    for daemon in ("ovs-vswitchd", "ovn-controller"):
        file = run / f"{daemon}.pid"
        before = file.read_text()
        os.kill(int(before), signal.SIGKILL)
        pool.until(lambda file=file, before=before: read(file) != before, f"a new {daemon}")  # type: ignore[misc]
    pool.until(lambda: is_near(measure(pool, "y", "x", "udp")), "packets, and no more of them")
    # What was taken from the kernel behind the switch's back is put back.
    shaped = find_end(pool, "a", "x").namespace.name
    remove = ["ip", "netns", "exec", shaped, "tc", "qdisc", "del", "dev", "eth0", "root"]
    subprocess.run(remove, check=True)
    pool.until(lambda: has_shape(shaped), "the shape of the job's interface")
    pool.until(lambda: list_states(pool) == both, "limits in force")


def read(file: Any) -> str:
    try:
        return str(file.read_text())
    except FileNotFoundError:
        return ""


def has_shape(namespace: str) -> bool:
    show = ["ip", "netns", "exec", namespace, "tc", "qdisc", "show", "dev", "eth0"]
    return "htb" in subprocess.run(show, check=True, capture_output=True, text=True).stdout


def test_a_cap_of_an_admin_holds_at_once(pool: RealPool) -> None:
    pool.do("network", "limit-cap", "default", "--in", "10M")
    capped = dict.fromkeys(("x", "y"), (10000, "set", LIMIT, "set"))
    pool.until(lambda: list_states(pool) == capped, "limits in force")
    refused = pool.run("network", "limit-set", "a", "--in", "20M")
    assert "GP-2102" in refused.stderr
    pool.do("network", "limit-cap", "default", "--off")
    for words, code in (
        (("network", "limit-set", "a", "--in", "20"), "GP-1062"),
        (("network", "limit-set", "a"), "GP-2007"),
        (("network", "limit-set", "none", "--in", "20M"), "GP-3020"),
    ):
        refused = pool.run(*words)
        assert code in refused.stderr, refused.stderr


def test_commands_of_the_page_work_in_their_order(pool: RealPool) -> None:
    for words in commands(PAGES / "network-limits.md"):
        pool.do(*words)
        if words[0] == "submit":
            pool.until_state("train", "running")
    wanted = (50_000, "set", 100_000, "set")
    pool.until(lambda: list_states(pool, "lab").get("train") == wanted, "the page's limits")
    pool.until(lambda: list_states(pool, "lab").get("", [""])[1] == "set", "the gateway's limits")
