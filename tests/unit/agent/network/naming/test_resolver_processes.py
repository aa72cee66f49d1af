"""A resolver in this kernel answers what its files say, wherever the agent before ended."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpupool.agent.network.daemons import EngineFiles
from gpupool.agent.network.namespaces import create_namespace, enter_namespace, remove_namespace
from gpupool.agent.network.naming.name_question import await_address
from gpupool.agent.network.naming.resolver_processes import ResolverProcesses
from gpupool.network.resolver_rows import RESOLVER_ADDRESS, ResolverConfig

pytest.importorskip("pyroute2")
pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(shutil.which("dnsmasq") is None, reason="needs dnsmasq"),
]
NETWORK = "v-0123456789"
#: Nothing is plugged in: the question is asked inside of the resolver's namespace.
SWITCH: Any = SimpleNamespace(plug=lambda *_words: None, remove=lambda *_words: None)


def make_config(**addresses: str) -> ResolverConfig:
    known = {name: (IPv4Address(address),) for name, address in addresses.items()}
    return ResolverConfig("port", 1, 1442, "a.gpupool.internal", known, is_forwarding=False)


@pytest.fixture
def files(tmp_path: Path) -> Iterator[EngineFiles]:
    made = EngineFiles(f"t{os.getpid()}", tmp_path, tmp_path)
    create_namespace(made.namespace)
    yield made
    make_processes(made, tmp_path).remove()
    remove_namespace(made.namespace)


def make_processes(files: EngineFiles, root: Path) -> ResolverProcesses:
    """Make what an agent has after its start."""
    return ResolverProcesses(files, root, 0)


def is_known(processes: ResolverProcesses, name: str, address: str) -> bool:
    namespace = processes._namespaces.locate(NETWORK)
    with enter_namespace(namespace), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.connect((str(RESOLVER_ADDRESS), 53))
        return await_address(asking, f"{name}.a.gpupool.internal", IPv4Address(address), 3.0)


@pytest.mark.parametrize("is_new_agent", [False, True])
def test_names_that_were_written_and_not_read_are_read(
    files: EngineFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_new_agent: bool
) -> None:
    processes = make_processes(files, tmp_path)
    processes.serve(NETWORK, make_config(one="10.0.0.2"), SWITCH)
    assert is_known(processes, "one", "10.0.0.2")

    def stop_here(*_words: object) -> None:
        raise OSError("the agent ends between the two steps")

    wanted = make_config(one="10.0.0.2", two="10.0.0.3")
    with monkeypatch.context() as patched:
        patched.setattr(ResolverProcesses, "_reload", stop_here)
        with pytest.raises(OSError, match="between the two steps"):
            processes.serve(NETWORK, wanted, SWITCH)
    if is_new_agent:
        processes = make_processes(files, tmp_path)
    processes.serve(NETWORK, wanted, SWITCH)
    assert is_known(processes, "two", "10.0.0.3")
