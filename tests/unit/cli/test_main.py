"""The door: what is imported, what unknown words get, how every end becomes an exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpupool import __version__
from gpupool.cli import main as door
from gpupool.cli.main import main
from tests.unit.cli.sample import job, sample_pool

HEAVY = (
    "fastapi",
    "pydantic",
    "sqlalchemy",
    "alembic",
    "uvicorn",
    "rich",
    "yaml",
    "numpy",
    "shtab",
)
LEAN = ("typing", "argparse", "socket", "dataclasses", "pathlib", "threading", "inspect")


SUBMIT = {
    *(
        "gpupool.base",
        "gpupool.base.client_settings",
        "gpupool.base.errors",
        "gpupool.base.errors.delivery",
        "gpupool.base.errors.failures",
        "gpupool.base.errors.networks",
        "gpupool.base.errors.people",
        "gpupool.base.errors.requests",
        "gpupool.base.errors.submissions",
        "gpupool.base.ids",
        "gpupool.base.units",
    ),
    *(
        "gpupool.cli",
        "gpupool.cli.work",
        "gpupool.terminal",
        "gpupool.terminal.commands",
        "gpupool.terminal.context",
        "gpupool.terminal.language",
        "gpupool.cli.main",
    ),
    *("gpupool.terminal.container_options", "gpupool.terminal.share_options"),
    "gpupool.cli.work.submit",
    *(
        "gpupool.client",
        "gpupool.client.connection",
        "gpupool.client.endpoints",
        "gpupool.client.leader",
    ),
    *(
        "gpupool.client.messages",
        "gpupool.client.sockets",
        "gpupool.client.launch_capture",
        "gpupool.client.submission",
        "gpupool.client.transport",
    ),
}
"""Every module of ours that a submission imports: one more is a choice, as each costs a fraction of
a millisecond."""


def modules_after(words: list[str], environ: dict[str, str] | None = None) -> set[str]:
    """What is imported by the time a command has done its work."""
    program = (
        "import sys; from gpupool.cli.main import main; before = set(sys.modules); code = main(sys.argv[1:]);"
        "sys.stderr.write(chr(10) + 'modules ' + ' '.join(sys.modules)); sys.exit(code)"
    )
    environ = {**os.environ, **(environ or {})}
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        capture_output=True,
        text=True,
        env=environ,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.rpartition("modules ")[2].split())


def ours(modules: set[str], *rooms: str) -> set[str]:
    return {name for name in modules for room in rooms if name.startswith(f"gpupool.{room}")}


def test_version_imports_no_web_database_or_scheduler_package() -> None:
    modules = modules_after(["--version"])
    assert not modules & {*HEAVY, *LEAN}
    assert ours(modules, "") == {
        "gpupool.base",
        "gpupool.base.errors",
        "gpupool.base.errors.delivery",
        "gpupool.base.errors.failures",
        "gpupool.base.errors.networks",
        "gpupool.base.errors.people",
        "gpupool.base.errors.requests",
        "gpupool.base.errors.submissions",
        "gpupool.cli",
        "gpupool.terminal",
        "gpupool.terminal.commands",
        "gpupool.terminal.language",
        "gpupool.cli.main",
    }


def test_submit_talks_to_a_pool_without_importing_what_costs_more_than_it_does(
    tmp_path: Path,
) -> None:
    with sample_pool(tmp_path):
        words = ["submit", "--gpu", "0.3", "--memory", "8GiB", "--name", "train", "--", "true"]
        modules = modules_after(words, {"GPUPOOL_STATE_DIR": str(tmp_path)})
    assert not modules & {*HEAVY, *LEAN}
    assert ours(modules, "") == SUBMIT


def test_run_imports_nothing_costly_before_it_attaches(tmp_path: Path) -> None:
    ended = job("train", "done", exit_code=0)
    with sample_pool(tmp_path, submit=ended):
        modules = modules_after(
            ["run", "--gpu", "0.3", "--", "true"], {"GPUPOOL_STATE_DIR": str(tmp_path)}
        )
    assert not modules & {*HEAVY, *LEAN}


def test_a_container_costs_its_command_no_dataclasses(tmp_path: Path) -> None:
    ended = job("train", "done", exit_code=0)
    words = ["run", "--gpu", "0.3", "--image", "localhost/a:1", "--pull", "missing", "--", "true"]
    with sample_pool(tmp_path, submit=ended):
        modules = modules_after(words, {"GPUPOOL_STATE_DIR": str(tmp_path)})
    assert "gpupool.model.container" in modules
    assert not modules & {*HEAVY, "dataclasses", "inspect"}


def test_looking_for_an_image_imports_nothing_costly() -> None:
    program = "import sys, gpupool.mechanisms.containers.image_store; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True
    )
    assert not set(done.stdout.split()) & {*HEAVY, "dataclasses", "inspect", "pathlib"}


def test_attaching_imports_nothing_costly_either() -> None:
    program = "import sys, gpupool.client.attach, gpupool.client.attach_relay; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not set(done.stdout.split()) & {*HEAVY, *LEAN}


def test_a_list_imports_no_pydantic(tmp_path: Path) -> None:
    with sample_pool(tmp_path):
        assert not modules_after(["ps"], {"GPUPOOL_STATE_DIR": str(tmp_path)}) & set(HEAVY)


@pytest.mark.parametrize("word", ["--version", "-V", "version"])
def test_the_version_is_printed(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 0
    assert capsys.readouterr().out == f"gpupool {__version__}\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["sumbit"],
            "gpupool: GP-1005: unknown command 'sumbit'\n  did you mean: gpupool submit\n",
        ),
        (["quto"], "gpupool: GP-1005: unknown command 'quto'\n  did you mean: gpupool quota\n"),
        (["rum"], "gpupool: GP-1005: unknown command 'rum'\n  did you mean: gpupool run\n"),
        (["rm"], "gpupool: GP-1005: unknown command 'rm'\n  try: gpupool stop JOB\n"),
        (["statu"], "gpupool: GP-1005: unknown command 'statu'\n  try: gpupool ps\n"),
        (
            ["xyzzy"],
            "gpupool: GP-1005: unknown command 'xyzzy'\n  gpupool --help lists the commands\n",
        ),
        (["--frobnicate"], "gpupool: GP-1005: unknown option --frobnicate\n  gpupool --help\n"),
        (["p\ns"], "gpupool: GP-1005: unknown command 'p\\ns'\n  did you mean: gpupool ps\n"),
    ],
)
def test_an_unknown_word_gets_the_nearest_one(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err == said


def test_without_a_pool_a_command_says_how_to_start_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--state-dir", str(tmp_path), "ps"]) == 7
    assert capsys.readouterr().err == (
        f"gpupool: GP-5001: no pool is running at {tmp_path}\n  start one: gpupool up --state-dir {tmp_path}\n"
    )


def test_the_state_directory_may_stand_before_or_after_the_command(tmp_path: Path) -> None:
    with sample_pool(tmp_path) as pool:
        assert main(["--state-dir", str(tmp_path), "ps"]) == 0
        assert main([f"--state-dir={tmp_path}", "--no-color", "ps"]) == 0
        assert main(["ps", "--state-dir", str(tmp_path)]) == 0
        assert main(["submit", "--state-dir", str(tmp_path), "--gpu", "1", "--", "true"]) == 0
        assert len(pool.requests) == 4


def test_ctrl_c_ends_a_command_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(door, "_dispatch_command", interrupted)
    assert main([]) == 130
    assert capsys.readouterr().err == ""


def test_an_unexpected_error_is_one_line_with_a_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: list[str]) -> int:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(door, "_dispatch_command", broken)
    monkeypatch.delenv("GPUPOOL_DEBUG", raising=False)
    assert main([]) == 1
    assert capsys.readouterr().err == (
        "gpupool: GP-5900: this should not happen: ZeroDivisionError: division by zero\n"
        "  GPUPOOL_DEBUG=1 shows where; please report it\n"
    )
    monkeypatch.setenv("GPUPOOL_DEBUG", "1")
    assert main([]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    with sample_pool(tmp_path):
        program = "from gpupool.cli.main import entry; entry()"
        command = f"{sys.executable} -c '{program}' ps -o json | head -c 1; echo ${{PIPESTATUS[0]}}"
        environ = {**os.environ, "GPUPOOL_STATE_DIR": str(tmp_path)}
        done = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, env=environ, check=True
        )
    assert done.stderr == ""
    assert done.stdout[0] == "["
    assert int(done.stdout[1:]) in (0, 141)


def test_sigint_from_outside_ends_a_waiting_command(tmp_path: Path) -> None:
    with sample_pool(tmp_path) as pool:
        pool.handler = lambda asked: (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        )
        program = "import sys; from gpupool.cli.main import entry; entry()"
        environ = {**os.environ, "GPUPOOL_STATE_DIR": str(tmp_path)}
        words = [sys.executable, "-c", program, "events", "--follow", "--after", "1"]
        with subprocess.Popen(words, env=environ, stderr=subprocess.PIPE) as running:
            while len(pool.requests) < 3:
                assert running.poll() is None
            running.send_signal(signal.SIGINT)
            _, said = running.communicate(timeout=20)
    assert (running.returncode, said) == (130, b"")
