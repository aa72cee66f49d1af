"""Processes with an open node, on the real `/proc`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpupool.mechanisms.pci.binding import explain_use, wait_until_idle
from gpupool.mechanisms.pci.holders import (
    PERSISTENCE_DAEMON,
    find_holders,
    format_holders,
    suggest_end,
)
from gpupool.mechanisms.pci.sysfs import PciTree
from gpupool.mechanisms.pci.tools import OperationFailure, OperationTools

#: Takes NVIDIA's name, of which the kernel keeps 15 characters, and holds its standard input open.
DAEMON = (
    "import sys; open('/proc/self/comm', 'w').write('nvidia-persistenced'); "
    "print('up', flush=True); sys.stdin.read()"
)


def test_a_process_with_an_open_file_is_found_and_named(tmp_path: Path) -> None:
    node = tmp_path / "nvidia0"
    node.touch()
    with node.open("rb") as opened:
        holder = subprocess.Popen(
            [sys.executable, "-c", "import sys; print('up', flush=True); sys.stdin.read()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(opened.fileno(),),
        )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"up\n"
    try:
        (found,) = find_holders([node])
        assert (found.pid, found.node) == (holder.pid, str(node))
        assert f"(pid {holder.pid}) on {node}" in format_holders([found])
        assert find_holders([node], ignore=(found.name,)) == ()
        assert find_holders([node], ignore_pid=holder.pid) == ()
    finally:
        holder.communicate()
    assert find_holders([node]) == ()


def test_a_device_is_found_under_another_path(tmp_path: Path) -> None:
    # As in a container, which has a node of its own for the same device.
    with open("/dev/full", "rb"):
        link = tmp_path / "node"
        link.symlink_to("/dev/full")
        assert os.getpid() in [one.pid for one in find_holders([link])]


def test_a_node_that_does_not_exist_has_no_holder(tmp_path: Path) -> None:
    assert find_holders([tmp_path / "nothing"]) == ()
    assert find_holders([]) == ()


def test_nvidias_daemon_is_known_by_the_name_that_the_kernel_keeps(tmp_path: Path) -> None:
    node = tmp_path / "nvidia0"
    node.touch()
    with node.open("rb") as opened:
        daemon = subprocess.Popen(
            [sys.executable, "-c", DAEMON],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(opened.fileno(),),
        )
    assert daemon.stdout is not None
    assert daemon.stdout.readline() == b"up\n"
    try:
        (found,) = find_holders([node])
        assert found.name == "nvidia-persiste"
        assert find_holders([node], ignore=(PERSISTENCE_DAEMON,)) == ()
        assert explain_use(Path("/"), [node]) == ""
        # A node without nvidia-smi cannot make the daemon close the card.
        tools = OperationTools(PciTree(Path("/")), pause=lambda _: None)
        with pytest.raises(OperationFailure, match="systemctl stop nvidia-persistenced"):
            wait_until_idle(tools, [str(node)], 0.1)
    finally:
        daemon.communicate()


def test_only_nvidias_daemon_has_a_command() -> None:
    assert suggest_end(["python", "nvidia-smi"]) == ""
    assert "systemctl stop nvidia-persistenced" in suggest_end(["python", "nvidia-persiste"])


def test_the_agent_itself_is_not_in_the_way(tmp_path: Path) -> None:
    node = tmp_path / "nvidia0"
    node.touch()
    with node.open("rb"):
        assert explain_use(Path("/"), [node]) == ""
