"""The first process of a container: streams, exit codes, signals and orphans, as a subreaper here."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

from tests.unit.native.front_pool import NATIVE, SANITIZERS, compile_front

SECONDS = 20


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("init") / "gpupool-init"
    compile_front(made, "-D_GNU_SOURCE", *SANITIZERS, sources=[NATIVE / "init/main.c"])
    return made


def run(program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, *words], capture_output=True, text=True, timeout=SECONDS, check=False
    )


@pytest.mark.parametrize("dashes", [(), ("--",)])
def test_output_and_exit_code_are_the_commands(program: Path, dashes: tuple[str, ...]) -> None:
    done = run(program, *dashes, "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")


def test_exit_codes_of_a_command_that_cannot_run_are_a_shells(program: Path) -> None:
    missing = run(program, "/bin/nothing")
    assert missing.returncode == 127
    assert missing.stderr == "gpupool: cannot run '/bin/nothing': No such file or directory\n"
    assert run(program, "/tmp").returncode == 126
    assert run(program).returncode == 126


def test_an_end_by_a_signal_is_128_and_its_number(program: Path) -> None:
    assert run(program, "sh", "-c", "kill -KILL $$").returncode == 128 + signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_is_passed_on_to_the_command(program: Path, number: signal.Signals) -> None:
    script = f"trap 'exit {10 + number}' {number}; echo ready; while :; do sleep 0.01; done"
    with subprocess.Popen([program, "sh", "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        assert process.wait(SECONDS) == 10 + number


def test_the_command_has_its_terminal_and_the_signals_of_its_start(program: Path) -> None:
    main, side = pty.openpty()
    script = (
        "import os, signal, sys;"
        "sys.exit(0 if os.tcgetpgrp(0) == os.getpgrp() == os.getpid()"
        " and not signal.pthread_sigmask(signal.SIG_BLOCK, []) else 1)"
    )
    take = (
        "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    done = subprocess.run(
        ["/usr/bin/env", "python3", "-c", take, str(program), "python3", "-c", script],
        stdin=side,
        stderr=subprocess.PIPE,
        timeout=SECONDS,
        check=False,
    )
    os.close(main)
    os.close(side)
    assert done.returncode == 0, done.stderr


@pytest.mark.root
def test_as_process_1_it_collects_orphans_and_takes_them_with_it(program: Path) -> None:
    # The orphan's end must not be taken for the command's.
    script = "(sleep 0 &) ; sleep 0.05; exit 5"
    done = subprocess.run(
        ["unshare", "--pid", "--fork", "--kill-child", str(program), "sh", "-c", script],
        timeout=SECONDS,
        check=False,
        env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"},
    )
    assert done.returncode == 5
