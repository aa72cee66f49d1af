"""Processes with an open node, on the real `/proc`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from gpupool.mechanisms.pci.holders import find_holders, format_holders


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
