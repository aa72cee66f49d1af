"""Taps of VMs in a namespace of this kernel: made once, listed by port, removed with it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.agent.network.daemons import EngineFiles, locate_engine
from gpupool.agent.network.namespaces import JobNamespaces, create_namespace, remove_namespace
from gpupool.agent.network.vm_taps import VmTaps
from gpupool.agent.supervisor import client
from gpupool.agent.supervisor.job_spec import TAP_DESCRIPTOR, Tap
from gpupool.wire.network.networks import PortWork
from tests.support.supervised import Jobs, supervised_jobs

pytest.importorskip("pyroute2")
pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(not Path("/dev/net/tun").exists(), reason="needs /dev/net/tun"),
]
WORK = PortWork(
    id="n-0123456789",
    network="v-1",
    address="10.0.0.2",
    prefix=24,
    gateway="10.0.0.1",
    mac="06:00:00:00:00:01",
    mtu=1442,
    domain="a.gpupool.internal",
    dns_name="dev",
)
#: An account without rights.
TENANT = 65534


@pytest.fixture
def files(tmp_path: Path) -> Iterator[EngineFiles]:
    made = locate_engine(tmp_path)
    create_namespace(made.namespace)
    yield made
    remove_namespace(made.namespace)


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    for part in (tmp_path, *tmp_path.parents):
        if part != Path("/"):
            part.chmod(part.stat().st_mode | 0o111)
    yield from supervised_jobs(tmp_path)


def show_links(files: EngineFiles) -> str:
    command = ["ip", "-n", files.namespace.name, "link", "show"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_tap_is_made_once_listed_and_removed(files: EngineFiles) -> None:
    taps = VmTaps(files)
    assert taps.list_ports() == []
    for _ in range(2):
        assert taps.create(WORK) == "gp0123456789"
    assert "gp0123456789: <" in show_links(files)
    assert "mtu 1442" in show_links(files)
    taps.create(replace_id("n-9876543210"))
    assert taps.list_ports() == ["n-0123456789", "n-9876543210"]
    for _ in range(2):
        JobNamespaces(files).clear(WORK.id)
    assert taps.list_ports() == ["n-9876543210"]


def replace_id(port: str) -> PortWork:
    return WORK.model_copy(update={"id": port})


def test_ports_of_an_engine_that_is_gone_are_none(files: EngineFiles) -> None:
    gone = replace(files, mark="00000000")
    assert VmTaps(gone).list_ports() == []


def test_a_command_without_rights_gets_the_tap_open_and_no_way_to_another(
    files: EngineFiles, jobs: Jobs
) -> None:
    tap = Tap(str(files.namespace), VmTaps(files).create(WORK))
    # The description of an open tap has its name (proc(5)).
    script = f"cat /proc/self/fdinfo/{TAP_DESCRIPTOR}; readlink /proc/self/ns/net; ls /proc/self/fd"
    _, output = jobs.shell(script, uid=TENANT, gid=TENANT, tap=tap)
    lines = output.decode().splitlines()
    assert f"iff:\t{tap.interface}" in lines
    # It stays in the namespace of the machine, where the tap is not.
    assert os.readlink("/proc/self/ns/net") in lines
    assert not Path("/sys/class/net", tap.interface).exists()


def test_a_command_does_not_start_without_its_tap(files: EngineFiles, jobs: Jobs) -> None:
    missing = Tap(str(files.namespace), "gp-missing")
    with pytest.raises(client.FailedToStart, match=r"tap gp-missing in .*: No such"):
        jobs.shell("true", uid=TENANT, gid=TENANT, tap=missing)
    # None is made in its place.
    assert "gp-missing" not in show_links(files)


def test_a_description_with_a_damaged_tap_is_refused(jobs: Jobs) -> None:
    for namespace, interface in (("/run/netns/x", "a" * 16), ("relative", "gp1"), ("/x", "")):
        directory = jobs.write("true", tap=Tap(namespace, interface))
        with pytest.raises(client.BadSpec):
            client.start_supervisor(directory)
