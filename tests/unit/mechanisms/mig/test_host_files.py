"""Reads capabilities and open nodes as the kernel shows them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gpupool.base.errors import ServiceUnavailable
from gpupool.mechanisms.mig.host_files import (
    OpenHandle,
    find_open_handles,
    format_handles,
    list_closed_nodes,
    list_instance_nodes,
)
from tests.support.mig_cards import MigHost


def test_list_instance_nodes_reads_the_instances_own_file_first(host: MigHost) -> None:
    access = host.files.root / "proc/driver/nvidia/capabilities/gpu0/mig/gi3/access"
    access.parent.mkdir(parents=True)
    access.write_text("DeviceFileMinor: 31\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
    assert list_instance_nodes(host.files, 0, 3, 0) == (
        "/dev/nvidia-caps/nvidia-cap31",
        "/dev/nvidia-caps/nvidia-cap10",  # of the driver's table: gpu0/gi3/ci0/access
    )


def test_list_instance_nodes_makes_a_missing_node(
    host: MigHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = host.files.root / "dev/nvidia-caps/nvidia-cap9"
    path.unlink()
    made = []

    def make_node(node: Path, mode: int, device: int) -> None:
        made.append((node, mode, os.major(device), os.minor(device)))
        node.write_text("")

    monkeypatch.setattr(os, "mknod", make_node)
    list_instance_nodes(host.files, 0, 3, 0)
    assert made == [(path, stat.S_IFCHR | 0o444, 237, 9)]


def test_list_instance_nodes_says_what_is_missing(host: MigHost) -> None:
    with pytest.raises(ServiceUnavailable, match="no capability gpu5/gi3/access"):
        list_instance_nodes(host.files, 5, 3, 0)


def test_list_closed_nodes_never_closes_the_own_instance(host: MigHost) -> None:
    closed = list_closed_nodes(host.files, 0, 3)
    assert closed[:2] == ("/dev/nvidia-caps/nvidia-cap1", "/dev/nvidia-caps/nvidia-cap2")
    assert len(closed) == 2 + 14
    assert "/dev/nvidia-caps/nvidia-cap9" not in closed


def test_find_open_handles_leaves_out_this_process(host: MigHost) -> None:
    node = host.files.root / "dev/nvidia0"
    with node.open():
        assert find_open_handles(host.files, ["/dev/nvidia0"]) == ()
        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), 19)  # stopped with the node open, until it is killed
            os._exit(0)
        os.waitpid(child, os.WUNTRACED)
        try:
            found = find_open_handles(host.files, ["/dev/nvidia0", "/dev/none"])
        finally:
            os.kill(child, 9)
            os.waitpid(child, 0)
    assert [(handle.pid, handle.node) for handle in found] == [(child, "/dev/nvidia0")]


def test_format_handles_names_five_at_most() -> None:
    every = [OpenHandle(pid, "dcgm", "/dev/nvidia0") for pid in range(1, 8)]
    assert format_handles(every).startswith("dcgm (pid 1), dcgm (pid 2)")
    assert format_handles(every).endswith("and 2 more")
