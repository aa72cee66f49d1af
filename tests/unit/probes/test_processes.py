"""Whose process a pid is, on the real /proc and on odd entries."""

import os
import subprocess
import sys
import time
from pathlib import Path

from gpupool.model.device import DeviceProcess
from gpupool.probes.processes import ProcessTable


def test_a_child_of_ours_is_described() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        seen = ProcessTable().describe_process(child.pid, 5)
        now = time.time_ns()
        child.communicate(b"\n")
    assert (seen.pid, seen.uid, seen.memory_bytes) == (child.pid, os.getuid(), 5)
    assert seen.name
    assert seen.name.startswith("python")
    assert seen.started_at_ns is not None
    assert abs(now - seen.started_at_ns) < 600 * 10**9


def test_a_process_that_is_gone_is_a_number_and_nothing_more() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert ProcessTable().describe_process(child.pid, 7) == DeviceProcess(child.pid, memory_bytes=7)


def test_a_name_may_hold_spaces_and_parentheses(tmp_path: Path) -> None:
    (tmp_path / "9").mkdir()
    fields = " ".join(["S", *["0"] * 18, "250", "0"])
    (tmp_path / "9/stat").write_text(f"9 (a) b (c)) {fields}\n")
    (tmp_path / "9/status").write_text("Name:\ta\nUid:\t1000\t0\t0\t0\n")
    (tmp_path / "stat").write_text("cpu 1\nbtime 1000\n")
    ticks = os.sysconf("SC_CLK_TCK")
    expected = 1000 * 10**9 + 250 * 10**9 // ticks
    assert ProcessTable(tmp_path).describe_process(9) == DeviceProcess(
        9, 1000, "a) b (c)", None, expected
    )
