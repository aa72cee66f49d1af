"""Namespaces of jobs in this kernel: a cable first, its address later, and both again where half made."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.agent.network.daemons import EngineFiles, locate_engine
from gpupool.agent.network.namespaces import JobNamespaces, create_namespace, remove_namespace
from gpupool.wire.network.networks import PortWork

pytest.importorskip("pyroute2")
pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]
WORK = PortWork(
    id="n-0123456780",
    network="v-1",
    address="10.0.0.2",
    prefix=24,
    gateway="10.0.0.1",
    mac="06:00:00:00:00:01",
    mtu=1442,
    domain="a.gpupool.internal",
    dns_name="dev",
)


@pytest.fixture
def files(tmp_path: Path) -> Iterator[EngineFiles]:
    made = locate_engine(tmp_path)
    create_namespace(made.namespace)
    yield made
    JobNamespaces(made).clear(WORK.id)
    remove_namespace(made.namespace)


def ask_ip(namespace: Path, *words: str) -> str:
    command = ["ip", "-n", namespace.name, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def read_index(files: EngineFiles) -> str:
    return ask_ip(files.namespace, "-o", "link", "show", "gp0123456780").partition(":")[0]


def test_a_cable_gets_its_address_later_and_once(files: EngineFiles) -> None:
    namespaces = JobNamespaces(files)
    network = namespaces.create_cable(WORK)
    assert "<BROADCAST,MULTICAST> mtu 1442" in ask_ip(network.namespace, "link", "show", "eth0")
    assert ask_ip(network.namespace, "-4", "addr", "show", "eth0") == ""
    index = read_index(files)
    for _ in range(2):
        namespaces.set_address(WORK)
        assert "inet 10.0.0.2/24" in ask_ip(network.namespace, "-4", "addr", "show", "eth0")
        assert "default via 10.0.0.1" in ask_ip(network.namespace, "route", "show")
        # What is complete is not made again: a job may run in it.
        assert namespaces.create_cable(WORK) == network
        assert namespaces.create(WORK) == network
        assert read_index(files) == index


def test_a_cable_without_its_address_is_made_again(files: EngineFiles) -> None:
    namespaces = JobNamespaces(files)
    network = namespaces.create_cable(WORK)
    index = read_index(files)
    # As an agent that was killed before `set_address` leaves it.
    assert namespaces.create(WORK) == network
    assert read_index(files) != index
    assert "default via 10.0.0.1" in ask_ip(network.namespace, "route", "show")
    ask_ip(network.namespace, "route", "delete", "default")
    namespaces.create(WORK)
    assert "default via 10.0.0.1" in ask_ip(network.namespace, "route", "show")
