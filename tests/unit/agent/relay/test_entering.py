"""What a session takes over from the command of its job."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

import pytest

from gpupool.agent.relay.entering import EntryFailure, check_start, read_limits
from tests.support.supervised import until


def test_read_limits_returns_what_the_kernel_answers_for_each_resource() -> None:
    limits = read_limits(Path("/proc/self/limits").read_text())
    assert limits == [resource.getrlimit(number) for number in range(len(limits))]
    assert len(limits) == 16


def test_check_start_refuses_another_process_of_the_same_number() -> None:
    own = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    check_start(os.getpid(), own)
    with pytest.raises(EntryFailure, match="has ended"):
        check_start(os.getpid(), own + 1)
    with pytest.raises(EntryFailure, match="has ended"):
        check_start(2**22 + 1, own)


def test_a_command_whose_name_is_cut_in_a_letter_can_be_entered(tmp_path: Path) -> None:
    """The kernel keeps 15 bytes of a name; before, no program could be started in such a job."""
    program = tmp_path / "x数据处理程序"
    program.symlink_to("/bin/sleep")
    process = subprocess.Popen([program, "600"])
    try:
        stat = Path(f"/proc/{process.pid}/stat")
        until(lambda: "数".encode() in stat.read_bytes(), "its name")
        check_start(process.pid, int(stat.read_bytes().rpartition(b")")[2].split()[19]))
    finally:
        process.kill()
        process.wait()
