"""A maker's tool that answers, complains, is missing, or hangs."""

import time
from pathlib import Path

import pytest

from gpupool.probes.common.vendor_tool import ToolPlace, VendorTool
from tests.support.recorded_hosts import add_tool
from tests.support.supervised import until

PLACE = ToolPlace(("npu-smi", "npu"), ("/usr/local/sbin/npu-smi",), "the Ascend driver", {"A": "1"})


def make_tool(root: Path, seconds: float = 20.0) -> VendorTool:
    return VendorTool(PLACE, root, str(root / "bin"), seconds)


def write_script(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_the_answer_is_what_the_tool_prints(tmp_path: Path) -> None:
    add_tool(tmp_path, "npu-smi", {"info": "two cards\n"})
    answer = make_tool(tmp_path).run(("info",))
    assert (answer.text, answer.problem) == ("two cards\n", "")


def test_a_tool_that_complains_is_quoted_in_one_line(tmp_path: Path) -> None:
    add_tool(tmp_path, "npu-smi", {"info": ""})
    answer = make_tool(tmp_path).run(("list",))
    program = tmp_path / "bin/npu-smi"
    assert answer.problem == f"{program} failed with code 2: unknown option: list"
    assert answer.text == ""


def test_a_missing_tool_names_what_to_install(tmp_path: Path) -> None:
    problem = make_tool(tmp_path).run(("info",)).problem
    assert problem == "npu-smi was not found: install the Ascend driver"


def test_the_path_comes_before_the_makers_own_place(tmp_path: Path) -> None:
    own = tmp_path / "usr/local/sbin/npu-smi"
    write_script(own, 'printf %s "$A $LC_ALL"')
    tool = make_tool(tmp_path)
    assert tool.find_program() == str(own)
    assert tool.run(()).text == "1 C"
    write_script(tmp_path / "bin/npu", "true")
    assert tool.find_program() == str(tmp_path / "bin/npu")


def test_a_file_that_is_no_program_is_told(tmp_path: Path) -> None:
    write_script(tmp_path / "bin/npu-smi", "")
    (tmp_path / "bin/npu-smi").write_text("")
    (tmp_path / "bin/npu-smi").write_bytes(b"\x7fELF")
    assert "cannot be started" in make_tool(tmp_path).run(()).problem


@pytest.mark.parametrize("body", ["exec sleep 60", "sleep 60 & wait"])
def test_a_tool_that_hangs_is_ended_with_its_children(tmp_path: Path, body: str) -> None:
    write_script(tmp_path / "bin/npu-smi", body)
    began = time.monotonic()
    answer = make_tool(tmp_path, 0.2).run(())
    assert answer.problem == f"{tmp_path / 'bin/npu-smi'} did not end within 0.2 s"
    assert time.monotonic() - began < 50


def test_a_tool_that_cannot_be_killed_is_not_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a process in uninterruptible sleep is: no signal ends it.
    monkeypatch.setattr("gpupool.probes.common.vendor_tool.KILL_SECONDS", 0.1)
    monkeypatch.setattr("gpupool.probes.common.vendor_tool.os.killpg", lambda pid, signal: None)
    ended = tmp_path / "ended"
    count = tmp_path / "count"
    wait = f"while [ ! -e {ended} ]; do sleep 0.02; done"
    write_script(tmp_path / "bin/npu-smi", f"echo once >>{count}\n{wait}")
    tool = make_tool(tmp_path, 0.5)
    try:
        assert "did not end" in tool.run(()).problem
        assert "hangs in the driver (pid " in tool.run(()).problem
    finally:
        ended.touch()
    until(lambda: not tool.run(()).problem, "the end of the one that hung")
    assert count.read_text().startswith("once\nonce\n")
