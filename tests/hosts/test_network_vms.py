"""VMs in tenants' networks with the real OVN and QEMU: leased, met, isolated, and whole after kills."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.agent.network.daemons import find_missing_programs, locate_engine
from gpupool.agent.supervisor.client import read_log
from gpupool.vm.door import connect_guest
from tests.e2e.pool_fixture import RealPool
from tests.hosts import guest
from tests.hosts.network_guest import LEASED, write_network_guest
from tests.support.pages import PAGES
from tests.support.typed_commands import commands

_MISSING = find_missing_programs()
_REASON = f"needs {', '.join(sorted(set(_MISSING.values())))}" if _MISSING else ""
pytestmark = [
    pytest.mark.hosts,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(bool(_MISSING), reason=_REASON),
    pytest.mark.skipif(bool(guest.find_missing_part()), reason=guest.find_missing_part()),
]

ADDRESS = "10.0.0.20"
SERVE = """
import socket
server = socket.create_server(("", 7000))
while True:
    peer, _ = server.accept()
    peer.sendall(b"from-job")
    peer.close()
"""
ASK = """
import socket, sys
try:
    print(socket.create_connection((sys.argv[1], 7000), float(sys.argv[2])).recv(20).decode())
except OSError as error:
    print(type(error).__name__)
"""


class Log:
    """What the serial port of a VM printed, without a new `gpupool logs` for each look."""

    def __init__(self, pool: RealPool, name: str) -> None:
        self._directory = pool.state_dir / "agent" / "jobs" / pool.job(name)["id"]

    def read(self) -> str:
        try:
            return read_log(self._directory, 0, 1 << 20).data.decode().replace("\r", "")
        except FileNotFoundError:
            # It has not started yet.
            return ""


class Guest:
    """The guest of one VM, by its console."""

    def __init__(self, pool: RealPool, name: str) -> None:
        self._pool = pool
        self._log = Log(pool, name)
        self._console = pool.start("vm", "console", name, stdin=subprocess.PIPE)
        self._count = 0

    def do(self, line: str) -> str:
        """Run a line in the guest; what it printed."""
        self._count += 1
        assert self._console.stdin is not None
        self._console.stdin.write(f"{self._count} {line}\n".encode())
        self._console.stdin.flush()
        marks = re.compile(rf"begin-{self._count}\n(.*?)end-{self._count}\n", re.DOTALL)
        found = self._pool.until(lambda: marks.search(self._log.read()), f"the end of {line!r}")
        return str(found[1])

    def close(self) -> None:
        assert self._console.stdin is not None
        self._console.stdin.close()
        self._console.kill()
        self._console.wait()


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    directory = Path(tempfile.mkdtemp(prefix="gpv-"))
    directory.chmod(0o755)
    with RealPool(directory / "pool", "2xL40S") as made:
        made.do("network", "enable")
        for name in ("a", "b"):
            made.do("network", "create", name, "--cidr", "10.0.0.0/24")
        words = ("submit", "--network", "a", "--address", "10.0.0.9", "--gpu", "0.1")
        made.do(*words, "--name", "server", "--", sys.executable, "-c", SERVE)
        made.until_state("server", "running")
        yield made
        made.stop_all()
        made.until(lambda: list_taps(made) == [], "no tap")
        made.do("network", "disable", "--yes")
    assert not list(Path("/run/netns").glob(f"{namespace(made).name}*"))
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def linux(pool: RealPool) -> list[str]:
    """The options of a VM whose guest asks for leases."""
    folder = pool.state_dir.parent
    write_network_guest(folder / "initrd")
    kernel = guest.find_kernel()
    assert isinstance(kernel, guest.TestKernel)
    return [
        *("--kernel", str(kernel.image), "--initrd", str(folder / "initrd")),
        *("--append", guest.APPEND, "--ram", "192MiB", "--cpus", "1", "--gpu", "none"),
    ]


@pytest.fixture(scope="module")
def dev(pool: RealPool, linux: list[str]) -> Iterator[Guest]:
    """A VM in network a, with the address that it asked for."""
    pool.do("vm", "run", *linux, "--network", "a", "--address", ADDRESS, "--name", "dev")
    await_leases(pool, "dev")
    made = Guest(pool, "dev")
    yield made
    made.close()
    pool.do("vm", "stop", "dev", "--grace", "0")


def await_leases(pool: RealPool, name: str) -> None:
    log = Log(pool, name)
    pool.until(lambda: LEASED in log.read(), "the guest's leases")


def namespace(pool: RealPool) -> Path:
    return locate_engine(pool.state_dir / "agent/network").namespace


def list_taps(pool: RealPool) -> list[str]:
    """The taps in the namespace of the switch.

    The unplugged cable of a job that ended may be there for two minutes: as long as the kernel sends
    the last packet of a connection again whose other end has not confirmed it.
    """
    command = ["ip", "-n", namespace(pool).name, "-json", "-details", "link"]
    links = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    taps = (link for link in links if link.get("linkinfo", {}).get("info_kind") == "tun")
    return sorted(link["ifname"] for link in taps if link["ifname"].startswith("gp"))


def find_port(pool: RealPool, job: str) -> dict[str, Any]:
    ports = pool.json("network", "show", "a")["ports"]
    found: dict[str, Any] = next(port for port in ports if port["job_name"] == job)
    return found


def ask(pool: RealPool, network: str, target: str, seconds: float = 10) -> str:
    words = ("run", "-q", "--network", network, "--gpu", "0.1", "--")
    return pool.do(*words, sys.executable, "-c", ASK, target, str(seconds)).strip()


def test_a_guest_gets_the_lease_of_its_port(pool: RealPool, dev: Guest) -> None:
    printed = pool.do("logs", "dev").replace("\r", "")
    facts = "router=10.0.0.1 dns=100.126.255.250 mtu=1442 domain=a.gpupool.internal"
    assert f"lease eth0 {ADDRESS} {facts}" in printed
    assert "mtu of eth0 1442" in printed
    assert "default via 10.0.0.1 dev eth0" in printed
    # The door gives an address and no way on.
    assert "lease eth1 169.254.255.15 router= dns= " in printed
    port = find_port(pool, "dev")
    assert port["address"] == ADDRESS
    assert port["mac"] in printed
    (row,) = pool.json("vm", "list")
    assert (row["network"], row["address"]) == ("a", ADDRESS)
    shown = pool.do("vm", "xml", "dev")
    assert f'<mac address="{port["mac"]}" />' in shown
    (tap,) = [name for name in list_taps(pool) if f'dev="{name}"' in shown]
    assert '<interface type="ethernet">' in shown
    assert tap


def test_a_job_and_a_vm_of_one_network_meet_and_no_other_tenant_does(
    pool: RealPool, dev: Guest
) -> None:
    assert ask(pool, "a", "dev") == "from-vm"
    assert ask(pool, "a", ADDRESS) == "from-vm"
    assert dev.do("busybox nc -w 5 10.0.0.9 7000 </dev/null") == "from-job"
    assert dev.do("busybox nc -w 5 server 7000 </dev/null") == "from-job"
    assert ask(pool, "b", ADDRESS, 1) == "TimeoutError"
    # Neither the machine nor what listens there on a loopback address.
    words = ("run", "-q", "--gpu", "0.1", "--", sys.executable, "-c", ASK, ADDRESS, "1")
    assert pool.do(*words).strip() != "from-vm"
    with subprocess.Popen([sys.executable, "-c", SERVE]) as outside:
        try:
            here = (sys.executable, "-c", ASK, "127.0.0.1", "1")
            pool.until(lambda: b"from-job" in subprocess.check_output(here), "a server here")
            for host in ("10.0.2.2", "169.254.255.2"):
                assert "from-job" not in dev.do(f"busybox nc -w 2 {host} 7000 </dev/null")
        finally:
            outside.kill()


def test_a_forged_source_is_dropped(pool: RealPool, dev: Guest) -> None:
    assert dev.do("busybox ping -c 1 -W 2 10.0.0.9 >/dev/null && echo reached") == "reached\n"
    dev.do("busybox ip addr add 10.0.0.77/24 dev eth0")
    forged = "busybox ping -c 2 -W 1 -I 10.0.0.77 10.0.0.9 >/dev/null || echo dropped"
    assert dev.do(forged) == "dropped\n"
    dev.do("busybox ip addr del 10.0.0.77/24 dev eth0")
    own = dev.do("busybox cat /sys/class/net/eth0/address").strip()
    change = "busybox ip link set eth0 down; busybox ip link set eth0 address {}; "
    change += "busybox ip link set eth0 up; busybox ip route add default via 10.0.0.1"
    dev.do(change.format("0a:00:00:00:00:77"))
    assert dev.do("busybox ping -c 2 -W 1 10.0.0.9 >/dev/null || echo dropped") == "dropped\n"
    dev.do(change.format(own))
    assert dev.do("busybox ping -c 3 -W 2 10.0.0.9 >/dev/null && echo reached") == "reached\n"


def test_ssh_reaches_the_guest_over_a_door_that_is_closed_again(pool: RealPool, dev: Guest) -> None:
    control = pool.state_dir / "agent" / "vms" / pool.job("dev")["id"] / "run" / "control"
    before = list_listeners()
    with connect_guest(control) as connection:
        assert list_listeners() <= before
        assert connection.recv(20).startswith(b"SSH-2.0-guest")
    # The guest has the version line of SSH alone, so the log-in ends after it.
    refused = pool.run("vm", "ssh", "dev", "-l", "root", "true")
    assert refused.returncode == 255
    assert "kex_exchange_identification" in refused.stderr or "closed by" in refused.stderr
    assert "does not answer" not in refused.stderr


def list_listeners() -> set[str]:
    """Local addresses with a listener: state 0A of /proc/net/tcp (proc(5))."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {row[1] for row in rows if row[3] == "0A" and row[1].startswith("0100007F")}


def test_traffic_goes_on_after_a_kill_of_the_agent(pool: RealPool, dev: Guest) -> None:
    tap = name_interface_of(pool, "dev")
    os.kill(pool.server_pid(), signal.SIGKILL)
    assert dev_answers_a_job_namespace(pool)
    pool.up()
    pool.until(lambda: pool.job("dev")["state"] == "running", "the VM is taken back")
    assert tap in list_taps(pool)
    assert ask(pool, "a", "dev") == "from-vm"


def name_interface_of(pool: RealPool, job: str) -> str:
    shown = pool.do("vm", "xml", job)
    found = re.search(r'<target dev="(gp[a-z0-9]+)"', shown)
    assert found is not None
    return found[1]


def dev_answers_a_job_namespace(pool: RealPool) -> bool:
    """Ask the VM from the namespace of the server's job, without a pool."""
    ours = namespace(pool).name
    (one,) = Path("/run/netns").glob(f"{ours}-n-*")
    command = ["ip", "netns", "exec", one.name, sys.executable, "-c", ASK, ADDRESS, "10"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    return done.stdout.strip() == "from-vm"


def test_commands_of_the_page_work_in_their_order(pool: RealPool) -> None:
    folder = pool.state_dir.parent
    image = folder / "debian-12.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", image, "64M"], check=True)
    pool.do("vm", "image", "import", str(image))
    # The empty image has no program for the power button, and no terminal can be asked.
    more = {"vm stop": ("--grace", "1s"), "vm delete": ("--yes",)}
    for words in commands(PAGES / "network-virtual-machines.md"):
        printed = pool.do(*words, *more.get(" ".join(words[:2]), ()))
        if words[:2] in (["vm", "run"], ["vm", "start"]):
            pool.until_state("db", "running")
            assert pool.job("db")["address"] == ADDRESS
        if words[0] == "submit":
            pool.until_state("client", "running")
        if words[:2] == ["network", "why"]:
            assert "in no security group" in printed


def test_a_security_group_holds_for_a_vm_and_its_end_leaves_no_tap(
    pool: RealPool, linux: list[str]
) -> None:
    pool.do("network", "group-create", "a", "web")
    before = list_taps(pool)
    words = ("--network", "a", "--security-group", "web", "--name", "closed")
    pool.do("vm", "run", *linux, *words)
    await_leases(pool, "closed")
    assert ask(pool, "a", "closed", 1) == "TimeoutError"
    pool.do("network", "group-allow", "a", "web", "tcp:7000")
    pool.until(lambda: ask(pool, "a", "closed", 1) == "from-vm", "packets by the rule")
    taken = find_port(pool, "closed")["address"]
    refused = pool.run("vm", "run", *linux, "--network", "a", "--address", taken)
    assert (refused.returncode, "GP-2089" in refused.stderr) == (3, True)
    assert "job closed has the address" in refused.stderr
    # Each verb leaves the tap where it is until the VM ends, however it ends.
    pool.do("vm", "reset", "closed")
    assert len(list_taps(pool)) == len(before) + 1
    kill_supervisor(pool, "closed")
    pool.until_state("closed", "lost")
    pool.until(lambda: list_taps(pool) == before, "the end of its tap")
    pool.do("network", "group-delete", "a", "web")


def kill_supervisor(pool: RealPool, job: str) -> None:
    """Kill the supervisor of a VM: the parent of its QEMU, which ends with it."""
    directory = pool.state_dir / "agent" / "vms" / pool.job(job)["id"] / "run"
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and is_in_directory(entry, directory):
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            os.kill(int(parent), signal.SIGKILL)


def is_in_directory(process: Path, directory: Path) -> bool:
    try:
        return (process / "cwd").readlink() == directory
    except OSError:
        return False
