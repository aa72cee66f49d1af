"""What users of networks meet: refusals, scripts, interrupted commands, and pages about them."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.agent.network.daemons import find_missing_programs, locate_engine
from tests.e2e.pool_fixture import SECONDS, RealPool
from tests.support.pages import PAGES
from tests.support.several_machines import list_processes
from tests.support.typed_commands import commands

_MISSING = find_missing_programs()
_REASON = f"needs {', '.join(sorted(set(_MISSING.values())))}" if _MISSING else ""
pytestmark = [
    pytest.mark.hosts,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(bool(_MISSING), reason=_REASON),
]

SERVE = """
import socket
server = socket.create_server(("", 5432))
while True:
    server.accept()[0].close()
"""
LINE = (
    *("line-create", "lab", "--vlan", "200", "--address", "192.168.200.1/29"),
    *("--speaker", "192.168.200.2", "--peer", "192.168.200.6"),
    *("--asn", "64512", "--peer-asn", "64513", "--allow", "10.9.0.0/16"),
)

#: Words of `gpupool network`, the code, and what the message has: numbers and the next step.
REFUSALS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        ("subnet-create", "lab", "--cidr", "10.0.0.128/25"),
        "GP-2080",
        r"10\.0\.0\.128/25 overlaps 10\.0\.0\.0/24",
    ),
    (("create", "x", "--cidr", "10.0.0.5/24"), "GP-1060", r"the prefix is 10\.0\.0\.0/24"),
    (("create", "x", "--cidr", "10.0.0.0/8"), "GP-1060", "16 to 28 bits; .* has 8"),
    (("create", "x", "--cidr", "224.0.0.0/24"), "GP-1060", "take a prefix of"),
    (("create", "lab", "--cidr", "10.0.0.0/24"), "GP-2006", "network list"),
    (("create", "x", "--cidr", "10.0.0.0/24", "--mtu", "100"), "GP-1005", "from 576 to 9000"),
    (("show", "nope"), "GP-3020", "network list"),
    (("show", "theirs"), "GP-3020", "no network 'theirs'"),
    (("delete", "lab", "--yes"), "GP-2008", "2 jobs in network lab"),
    (("disable", "--yes"), "GP-2008", "2 jobs are in networks"),
    (("lb-create", "lab", "x", "--port", "80", "--target-port", "80"), "GP-1000", "--backend JOB"),
    (
        ("lb-create", "lab", "x", "--port", "0", "--target-port", "80", "--backend", "db"),
        "GP-1005",
        "from 1 to 65535",
    ),
    (("forward-create", "lab", "db", "--target-port", "80"), "GP-2007", "gateway-create lab"),
    (("peering-request", "lab", "theirs"), "GP-3020", "network list -o wide"),
    (("route-create", "lab", "10.9.0.0/16", "--via", "10.5.5.5"), "GP-1060", "network show lab"),
    (("group-create", "lab", "Bad Name"), "GP-1003", "1 to 63 letters"),
    (("dns-add", "lab", "bad_name!", "10.0.0.3"), "GP-1003", "letters, digits and hyphens"),
    (("limit-set", "lab", "--in", "1"), "GP-1062", "20M or 1.5G"),
    (("firewall-create", "deny", "10.0.0.5/8"), "GP-1060", r"the prefix is 10\.0\.0\.0/8"),
    (LINE, "GP-2007", "--line-interface"),
    (tuple("5000" if word == "200" else word for word in LINE), "GP-1005", "from 1 to 4094"),
    (tuple("0" if word == "64512" else word for word in LINE), "GP-1005", "from 1 to 4294967294"),
    (("enable", "--forward-ports", "40000-30000"), "GP-1060", "40000-30000"),
    (("enable", "--node", "nope"), "GP-2083", "gpupool gpus"),
    (("enable", "--ovn", "unix:/run/ovnnb.sock"), "GP-1060", "tcp:ADDRESS:PORT"),
)
#: The same of `gpupool submit`.
JOB_REFUSALS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("--network", "nope"), "GP-3020", "network list"),
    (("--network", "theirs"), "GP-3020", "no network 'theirs'"),
    (("--network", "lab", "--address", "10.9.0.1"), "GP-1060", r"outside .*10\.0\.0\.0/24"),
    (
        ("--network", "lab", "--address", "10.0.0.1"),
        "GP-1060",
        r"from 10\.0\.0\.2 to 10\.0\.0\.254",
    ),
    (("--network", "lab", "--address", "10.0.0.255"), "GP-1060", "broadcast"),
    (("--network", "lab", "--address", "10.0.0.20"), "GP-2089", "job db has the address"),
    (("--network", "lab", "--array", "252"), "GP-2082", "253 addresses .* 2 jobs .* 252 more"),
    (("--network", "lab", "--security-group", "nope"), "GP-3020", "nope"),
    (("--address", "10.0.0.9"), "GP-1005", "--network NAME"),
)


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    directory = Path(tempfile.mkdtemp(prefix="gpt-"))
    directory.chmod(0o755)
    with RealPool(directory / "pool", "2xL40S") as made:
        made.do("network", "enable")
        made.do("tenant", "create", "vision")
        made.do("network", "create", "theirs", "--cidr", "10.1.0.0/24", "--tenant", "vision")
        made.do("network", "create", "lab", "--cidr", "10.0.0.0/24")
        for name, address in (("db", "10.0.0.20"), ("web", "10.0.0.21")):
            words = ("submit", "--network", "lab", "--address", address, "--gpu", "0.1")
            made.do(*words, "--name", name, "--", sys.executable, "-c", SERVE)
            made.until_state(name, "running")
        yield made
    # `down --purge` with an enabled engine and jobs in networks: nothing is left of them.
    assert not made.state_dir.exists()
    shutil.rmtree(directory)


def read_everything(pool: RealPool) -> dict[str, Any]:
    """What no refused command may change."""
    kinds = ("lb-list", "forward-list", "group-list", "route-list", "dns-list", "line-list")
    found = {kind: pool.json("network", kind, "lab") for kind in kinds}
    for name in ("list", "firewall-list", "status"):
        found[name] = pool.json("network", name)
    found["jobs"] = [job["id"] for job in pool.json("ps", "--all")]
    return found


def test_bad_input_is_refused_with_its_numbers_and_changes_nothing(pool: RealPool) -> None:
    before = read_everything(pool)
    asked = [(("network", *words), code, text) for words, code, text in REFUSALS]
    job = ("submit", "--gpu", "0.1")
    asked += [((*job, *words, "--", "true"), code, text) for words, code, text in JOB_REFUSALS]
    for words, code, text in asked:
        refused = pool.run(*words)
        assert refused.returncode in (2, 3, 5), (words, refused.stdout, refused.stderr)
        assert code in refused.stderr, (words, refused.stderr)
        assert re.search(text, refused.stderr, re.DOTALL), (words, refused.stderr)
    assert read_everything(pool) == before


def test_scripts_get_what_they_read(pool: RealPool) -> None:
    assert pool.do("network", "create", "batch", "--cidr", "10.2.0.0/24") == "batch\n"
    run = ("run", "-q", "--network", "batch", "--gpu", "0.1", "--", "sh", "-c", "echo out; exit 7")
    ended = pool.run(*run)
    assert (ended.stdout, ended.returncode) == ("out\n", 7)
    shown = {job["name"]: job for job in pool.json("ps")}
    assert (shown["db"]["network"], shown["db"]["address"]) == ("lab", "10.0.0.20")
    networks = {one["name"]: one for one in pool.json("network", "list")}
    assert networks["batch"]["subnets"][0]["cidr"] == "10.2.0.0/24"
    found = json.loads(pool.run("network", "verify", "batch", "-o", "json").stdout)
    assert {"name", "kept"} <= found["checks"][0].keys()
    pool.do("network", "delete", "batch", "--yes")


def test_commands_of_the_page_of_troubles_work_in_their_order(pool: RealPool) -> None:
    for words in commands(PAGES / "network-troubleshooting.md"):
        printed = pool.do(*words)
        if words[:2] == ["network", "why"]:
            assert "yes" in printed.splitlines()[0]


def test_commands_of_the_page_of_peerings_work_in_their_order(pool: RealPool) -> None:
    (theirs,) = (one for one in pool.json("network", "list") if one["name"] == "theirs")
    known = {"v-4k9x2m7q8w": str(theirs["id"])}
    for words in commands(PAGES / "network-peering.md"):
        typed = [known.get(word, word) for word in words]
        owner = ["--tenant", "vision"] if "theirs" in typed and words[0] == "network" else []
        if typed[:2] != ["network", "list"]:
            printed = pool.do(*typed, *owner)
        if words[1] == "peering-request":
            known["p-8w7q2m9x4k"] = printed.strip()
        elif words[1] == "peering-accept":
            (peering,) = pool.json("network", "peering-list", "lab")
            assert peering["state"] == "accepted"
    assert pool.json("network", "peering-list", "lab") == []


def test_a_server_that_is_killed_meanwhile_leaves_a_whole_balancer_or_none(pool: RealPool) -> None:
    for number in range(2):
        words = ("lb-create", "lab", f"web-{number}", "--port", "80", "--target-port", "5432")
        asked = pool.start("network", *words, "--backend", "db")
        time.sleep(number * 0.05)  # the kill comes at another step each time
        os.kill(pool.server_pid(), signal.SIGKILL)
        pool.up()
        asked.wait(60)
        shown = {one["name"]: one for one in pool.json("network", "lb-list", "lab")}
        again = pool.run("network", *words, "--backend", "db")
        if f"web-{number}" in shown:
            assert "GP-2006" in again.stderr
            assert [one["dns_name"] for one in shown[f"web-{number}"]["members"]] == ["db"]
        else:
            assert again.returncode == 0, again.stderr
    addresses = [one["address"] for one in pool.json("network", "lb-list", "lab")]
    assert len(set(addresses)) == len(addresses) == 2


@pytest.mark.parametrize("words", [("verify", "lab"), ("enable",)])
def test_an_interrupted_command_ends_and_the_engine_goes_on(
    pool: RealPool, words: tuple[str, ...]
) -> None:
    asked = pool.start("network", *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        if words[0] == "verify":
            assert asked.stderr is not None
            assert asked.stderr.readline()
        asked.send_signal(signal.SIGINT)
        asked.wait(SECONDS)  # it ends what it started, as busy as the machine is
    finally:
        asked.kill()
        asked.communicate()
    assert asked.returncode in (0, 130, -signal.SIGINT)
    assert pool.json("network", "status")["state"] == "ready"


def test_nothing_is_left_of_a_pool_that_is_purged(pool: RealPool) -> None:
    mark = locate_engine(pool.state_dir / "agent/network").mark
    assert list_processes(mark)
    pool.do("down", "--purge", "--yes", "--grace", "0s")
    assert list_processes(mark) == []
    assert not [name for name in os.listdir("/run/netns") if mark in name]
    assert not [name for name in os.listdir("/sys/class/net") if mark in name]
    assert not [path for path in Path("/run").glob("gpupool-*") if mark in path.name]
    tables = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=False)
    assert mark not in tables.stdout
