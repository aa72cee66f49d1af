"""Flow logs and mirrors on the real OVN: verdicts with their rules, a bound for floods, and copies."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.pool_fixture import RealPool
from tests.support.network_pool import OVN_MARKS, find_end, locate_files, network_pool
from tests.support.pages import PAGES
from tests.support.typed_commands import commands

pytestmark = OVN_MARKS

SERVE = """
import socket
server = socket.create_server(("", 7000))
while True: server.accept()[0].sendall(b"hi")
"""
#: Prints what each port of a job answered.
ASK = """
import socket, sys
for port in (7000, 7001):
    try:
        print(socket.create_connection((sys.argv[1], port), 0.5).recv(2).decode())
    except OSError as error:
        print(type(error).__name__)
"""
#: Waits for an interface and prints the ends of the TCP packets that come by it.
SNIFF = """
import fcntl, socket, struct, sys, time

def is_up(name):  # netdevice(7): SIOCGIFFLAGS, IFF_UP. An interface is there before it is up.
    request = struct.pack("16sH14x", name.encode(), 0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            answer = fcntl.ioctl(asking, 0x8913, request)
        except OSError:
            return False
    return bool(struct.unpack("16sH14x", answer)[1] & 1)

while not is_up(sys.argv[1]):
    time.sleep(0.05)
channel = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
channel.bind((sys.argv[1], 0))
print("listens", flush=True)
while True:
    frame = channel.recv(2000)
    if frame[23] == 6:
        print(socket.inet_ntoa(frame[26:30]), socket.inet_ntoa(frame[30:34]), flush=True)
"""
#: Sends once the MAC address is known: until then the kernel holds a hundred packets and drops the rest.
FLOOD = """
import socket, sys, time
from pathlib import Path
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def is_known():  # proc_net(5): ATF_COM
    lines = [line.split() for line in Path("/proc/net/arp").read_text().splitlines()[1:]]
    return any(line[0] == sys.argv[1] and int(line[2], 16) & 2 for line in lines)
while not is_known():
    sender.sendto(b"x", (sys.argv[1], 9999))
    time.sleep(0.05)
for number in range(3000): sender.sendto(b"x", (sys.argv[1], 9999))
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with network_pool() as made:
        made.do("network", "create", "a", "--cidr", "10.0.0.0/24")
        made.do("network", "group-create", "a", "db")
        made.do("network", "group-allow", "a", "db", "tcp:7000")
        start(made, "web", "10.0.0.5")
        start(made, "store", "10.0.0.6", "--security-group", "db")
        made.do("network", "flowlog-create", "a", "every")
        made.do("network", "flowlog-create", "a", "refused", "--verdict", "denied")
        yield made
        made.stop_all()
        made.do("network", "disable", "--yes")


def start(pool: RealPool, name: str, address: str, *more: str) -> None:
    words = ("submit", "--network", "a", "--address", address, *more, "--gpu", "0.1")
    pool.do(*words, "--name", name, "--", sys.executable, "-c", SERVE)
    pool.until_state(name, "running")


def run_in_web(pool: RealPool, program: str, target: str) -> list[str]:
    inside = find_end(pool, "a", "web").namespace.name
    command = ["ip", "netns", "exec", inside, sys.executable, "-c", program, target]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def find_records(pool: RealPool, log: str, **wanted: object) -> list[dict[str, Any]]:
    records = pool.json("network", "flowlog-show", "a", log)
    return [one for one in records if wanted.items() <= one.items()]


def test_records_name_verdict_rule_and_jobs(pool: RealPool) -> None:
    # The lists log once the switch has them, so a refusal is asked for until it does.
    def is_logged() -> bool:
        # A job runs before its server listens, and the machine may be busy for half a second.
        has_answer = run_in_web(pool, ASK, "10.0.0.6") == ["hi", "TimeoutError"]
        return has_answer and bool(find_records(pool, "refused", target_port=7001))

    pool.until(is_logged, "the refusal in the log")
    refused = find_records(pool, "refused", target_port=7001)[0]
    assert (refused["verdict"], refused["group"], refused["rule"]) == ("denied", "db", "others")
    assert (refused["source"], refused["source_job"]) == ("10.0.0.5", "web")
    assert (refused["target"], refused["target_job"]) == ("10.0.0.6", "store")
    assert find_records(pool, "refused", verdict="allowed") == []
    pool.until(lambda: find_records(pool, "every", target_port=7000), "the flow in the log")
    allowed = find_records(pool, "every", target_port=7000)[0]
    assert allowed["verdict"] == "allowed"
    (group,) = pool.json("network", "group-list", "a")
    assert allowed["rule"] == group["rules"][0]["id"]


def test_jobs_in_no_group_are_logged_and_reached_as_before(pool: RealPool) -> None:
    # Answers and what a job in no group takes have no rule of a group.
    inside = find_end(pool, "a", "store").namespace.name
    command = ["ip", "netns", "exec", inside, sys.executable, "-c", ASK, "10.0.0.5"]

    def ask() -> list[str]:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return done.stdout.split()

    pool.until(lambda: ask() == ["hi", "ConnectionRefusedError"], "both answers")
    wanted = {"target": "10.0.0.5", "target_port": 7000, "rule": "default", "group": None}
    pool.until(lambda: find_records(pool, "every", **wanted), "the flow in the log")


def test_a_reader_that_follows_gets_new_records(pool: RealPool) -> None:
    process = pool.start("network", "flowlog-show", "a", "refused", "-n", "1", "-f", "-o", "json")
    try:
        assert process.stdout is not None
        # The last one that was there, so it waits from then on.
        process.stdout.readline()
        run_in_web(pool, ASK, "10.0.0.6")
        new = json.loads(process.stdout.readline())
        assert (new["source_job"], new["target_port"], new["verdict"]) == ("web", 7001, "denied")
    finally:
        process.kill()
        process.communicate()


def test_a_flood_is_counted_and_not_logged(pool: RealPool) -> None:
    run_in_web(pool, FLOOD, "10.0.0.6")

    def count_skipped() -> int:
        logs = pool.json("network", "flowlog-list", "a")
        return int(next(one["skipped_packets"] for one in logs if one["name"] == "refused"))

    pool.until(lambda: count_skipped() > 500, "the skipped packets")
    logged = sum(one["packets"] for one in find_records(pool, "refused", target_port=9999))
    # A burst, and the rate for the seconds that it took.
    assert 0 < logged < 1000


def test_a_mirror_copies_the_packets_of_one_job_to_another(pool: RealPool) -> None:
    start(pool, "sensor", "10.0.0.7")
    inside = find_end(pool, "a", "sensor").namespace.name
    change = ["ip", "-n", inside, "link"]
    # A job that has an interface of that name itself delays its own mirror alone.
    subprocess.run([*change, "add", "copies", "type", "veth", "peer", "name", "own"], check=True)
    pool.do("network", "mirror-create", "a", "copies", "--from", "store", "--to", "sensor")
    pool.until(lambda: "File exists" in find_mirror(pool)["reason"], "the reason")
    subprocess.run([*change, "del", "copies"], check=True)
    sniffer = ["ip", "netns", "exec", inside, sys.executable, "-c", SNIFF, "copies"]
    with subprocess.Popen(sniffer, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().split() == ["listens"]
            pool.until(lambda: find_mirror(pool)["state"] != "not enforced", "the mirror")
            assert run_in_web(pool, ASK, "10.0.0.6")[0] == "hi"
            ends = {process.stdout.readline().strip() for _ in range(2)}
            assert ends == {"10.0.0.5 10.0.0.6", "10.0.0.6 10.0.0.5"}
        finally:
            process.kill()
    # The target is reached as before, and the switch counts the copies.
    assert run_in_web(pool, ASK, "10.0.0.7")[0] == "hi"
    # The switch may count while the packets still come.
    pool.until(lambda: find_mirror(pool)["packets"] >= 2, "the count of the switch")
    assert find_mirror(pool)["state"] == "verified"
    pool.do("stop", "sensor", "--yes")
    pool.until(lambda: not pool.json("network", "mirror-list", "a"), "the end of the mirror")
    switch = f"--db={locate_files(pool).remote('switch')}"
    command = ["ovs-vsctl", switch, "--bare", "--columns=name", "list", "Mirror"]

    def is_removed() -> bool:
        return not subprocess.run(command, check=True, capture_output=True).stdout.strip()

    pool.until(is_removed, "the end of the mirror in the switch")


def find_mirror(pool: RealPool) -> dict[str, Any]:
    (mirror,) = pool.json("network", "mirror-list", "a")
    found: dict[str, Any] = mirror
    return found


def test_commands_of_the_page_work_in_their_order(pool: RealPool) -> None:
    for words in commands(PAGES / "network-flow-logs.md"):
        pool.do(*words)
        if words[0] == "submit":
            pool.until_state(words[words.index("--name") + 1], "running")
