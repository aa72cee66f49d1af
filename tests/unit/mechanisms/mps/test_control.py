"""The client against a program of the real one's name that answers through a socket."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.mechanisms.mps.control import ANSWER_BYTES, ControlProgram, ControlTarget
from gpupool.mechanisms.mps.replies import ReplyKind
from tests.support.mps_fake import write_program


@pytest.fixture
def target() -> Iterator[ControlTarget]:
    with tempfile.TemporaryDirectory(prefix="mps") as name:
        pipe = Path(name) / "pipe"
        pipe.mkdir()
        yield ControlTarget(pipe, Path(name) / "log", os.getuid(), os.getgid())


def start(program: Path, target: ControlTarget) -> "subprocess.Popen[bytes]":
    # It names a card of its own, so that tests beside this one do not take it for theirs.
    environment = {"CUDA_VISIBLE_DEVICES": "GPU-control", **target.environment}
    daemon = subprocess.Popen([str(program), "-f"], env=environment)
    deadline = time.monotonic() + 20
    while not (target.pipe / "control_privileged").exists():
        assert time.monotonic() < deadline, "the fake daemon does not start"
        assert daemon.poll() is None, "the fake daemon ended"
        os.sched_yield()
    return daemon


def test_a_command_of_protocol_2_is_a_line(target: ControlTarget) -> None:
    program = write_program(target.pipe.parent, 2)
    client = ControlProgram(str(program))
    assert not client.has_namespaces()
    assert client.send_line(target, "get_server_list").kind is ReplyKind.NO_DAEMON
    with start(program, target) as daemon:
        assert client.send_line(target, "get_default_active_thread_percentage").text == "100.0"
        assert client.send_line(target, "bogus").kind is ReplyKind.UNKNOWN_COMMAND
        assert client.send_line(target, "quit -t 1").is_success
        assert daemon.wait(20) == 0


def test_a_command_of_protocol_3_is_words(target: ControlTarget) -> None:
    program = write_program(target.pipe.parent, 3)
    client = ControlProgram(str(program))
    assert client.locate_program() == str(program)
    assert client.has_namespaces()
    with start(program, target) as daemon:
        words = ("server", "create", "gpupool", "--uid=7", "--allowed-devices=GPU-1")
        assert client.send_words(target, words).kind is ReplyKind.EMPTY
        listed = client.send_words(target, ("server", "list", "gpupool", "--format=csv,noheader"))
        assert listed.text.startswith("gpupool,7,")
        client.send_words(target, ("-q",))
        assert daemon.wait(20) == 0


def test_a_program_that_is_missing_is_said(target: ControlTarget) -> None:
    client = ControlProgram("/nonexistent/nvidia-cuda-mps-control")
    assert "was not found on this host" in client.explain_absence()
    assert client.send_line(target, "quit").kind is ReplyKind.FAILURE
    assert not client.has_namespaces()


def write_script(folder: Path, text: str) -> ControlProgram:
    path = folder / "nvidia-cuda-mps-control"
    path.write_text(f"#!{sys.executable} -IS\n{text}\n")
    path.chmod(0o755)
    return ControlProgram(str(path))


def test_a_daemon_that_hangs_costs_a_time_and_no_thread(
    target: ControlTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpupool.mechanisms.mps.control.TIMEOUT_SECONDS", 0.2)
    client = write_script(target.pipe.parent, "import signal; signal.pause()")
    assert client.send_line(target, "get_server_list").kind is ReplyKind.TIMEOUT


def test_an_answer_without_an_end_is_cut(target: ControlTarget) -> None:
    client = write_script(target.pipe.parent, "while True: print('7' * 4096)")
    reply = client.send_line(target, "get_server_list")
    assert reply.kind is ReplyKind.TIMEOUT
    assert len(reply.text) == ANSWER_BYTES


@pytest.mark.root
def test_the_client_runs_as_the_owner_and_not_as_root(target: ControlTarget) -> None:
    for path in (target.pipe.parent, target.pipe):
        path.chmod(0o755)
    path = target.pipe.parent / "nvidia-cuda-mps-control"
    path.write_text("#!/bin/sh\necho $(id -u) $(id -g) $(id -G)\n")
    path.chmod(0o755)
    nobody = ControlTarget(target.pipe, target.log, 65534, 65533)
    assert ControlProgram(str(path)).send_line(nobody, "ps").text == "65534 65533 65533"


def test_a_program_that_cannot_be_run_is_a_failure(target: ControlTarget) -> None:
    path = target.pipe.parent / "nvidia-cuda-mps-control"
    path.write_text("#!/nonexistent/interpreter\n")
    path.chmod(0o755)
    reply = ControlProgram(str(path)).send_line(target, "ps")
    assert reply.kind is ReplyKind.FAILURE
    assert str(path) in reply.text
