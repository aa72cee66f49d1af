"""The host as a child: its answer while it starts, and its errors."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from gpupool.base.errors import InternalError
from gpupool.cli.pool import host_process


def test_a_server_that_dies_without_a_word_is_told_with_where_to_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        host_process, "make_host_command", lambda *_: ["/bin/sh", "-c", "exit 3", "sh"]
    )
    with (
        open(tmp_path / "server.log", "wb") as log,
        pytest.raises(InternalError, match="exit status 3") as caught,
    ):
        host_process.HostStart(str(tmp_path), [], log=log).await_ready()
    assert caught.value.hint == f"see {tmp_path}/server.log"


def test_a_server_that_refuses_is_repeated_with_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = '{"error": {"code": "GP-4003", "message": "a pool is already running (pid 7)", "hint": "gpupool down"}}'
    program = f"import os, sys; os.write(int(sys.argv[2]), {said.encode()!r}); sys.exit(6)"
    monkeypatch.setattr(
        host_process, "make_host_command", lambda *_: [sys.executable, "-c", program]
    )
    with pytest.raises(Exception, match="already running") as caught:
        host_process.HostStart(str(tmp_path), [], log=None).await_ready()
    assert (caught.value.code, caught.value.exit_code) == ("GP-4003", 6)  # type: ignore[attr-defined]


#: A `gpupool up` that waits for its server; the server's pid is its output.
UP = """
from gpupool.cli.pool import host_process
host_process.make_host_command = lambda *_: ["/bin/sh", "-c", "exec sleep 600", "sh"]
start = host_process.HostStart("/", [], log=None, ends_with_us=True)
print(start.process.pid, flush=True)
start.process.wait()
"""


def test_a_server_of_a_service_ends_when_its_parent_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", UP], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        server = os.pidfd_open(int(parent.stdout.readline()))
        try:
            ended = select.poll()
            ended.register(server, select.POLLIN)
            assert not ended.poll(0)
            parent.kill()
            assert ended.poll(60_000)
        finally:
            os.close(server)
