"""`gpupool up`: the host's flags and the log file."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpupool.base.errors import StateUnusable
from gpupool.cli.pool import host_process, up


def test_up_passes_its_options_on_with_files_by_their_full_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    options = SimpleNamespace(
        sim="4xL40S",
        tls_cert="a.pem",
        tls_key=None,
        store=None,
        node_name="n",
        fence_reaction="freeze",
        listen=["h:1", ":2"],
        label=["zone=z1", "sim-1:rack=r2"],
        job_limit=["nofile=10:20"],
        allow_image=["local", "r.example/ml"],
        allow_volume=["data"],
        standby=True,
        insecure_http=True,
    )
    assert up.make_host_words(options) == [  # type: ignore[arg-type]
        "--sim", "4xL40S", "--tls-cert", str(tmp_path / "a.pem"), "--node-name", "n",
        "--fence-reaction", "freeze", "--listen", "h:1", "--listen", ":2",
        "--label", "zone=z1", "--label", "sim-1:rack=r2", "--job-limit", "nofile=10:20",
        "--allow-image", "local", "--allow-image", "r.example/ml", "--allow-volume", str(tmp_path / "data"),
        "--standby", "--insecure-http",
    ]  # fmt: skip
    options.standby = False
    assert "--no-standby" in up.make_host_words(options)  # type: ignore[arg-type]
    options.standby = None
    assert not [word for word in up.make_host_words(options) if "standby" in word]  # type: ignore[arg-type]


def test_a_state_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateUnusable, match="cannot be used as state directory"):
        host_process.open_log(str(tmp_path / "file" / "state"))


def interrupt_start(start: SimpleNamespace) -> None:
    with up._end_with_us(start):  # type: ignore[arg-type]
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("is_ready", "notice"),
    [
        (False, "gpupool: this server was not ready yet and has stopped: gpupool up  starts it"),
        (True, "gpupool: the server has stopped; its jobs go on: gpupool up  takes them back"),
    ],
)
def test_an_interrupted_up_says_what_it_stopped(
    is_ready: bool, notice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    process = subprocess.Popen(["sleep", "600"])
    with pytest.raises(KeyboardInterrupt):
        interrupt_start(SimpleNamespace(process=process, is_ready=is_ready))
    assert process.returncode == -signal.SIGTERM
    assert capsys.readouterr().err.startswith(notice)


def test_a_directory_of_an_interrupted_start_is_removed_unless_something_is_said_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_start: object) -> None:
        raise KeyboardInterrupt

    words = ["/bin/sh", "-c", "exec sleep 600", "sh"]
    monkeypatch.setattr(host_process, "make_host_command", lambda *_: words)
    monkeypatch.setattr(host_process.HostStart, "await_ready", interrupt)
    fresh = tmp_path / "pool"
    with pytest.raises(KeyboardInterrupt):
        up.start_detached(str(fresh), [])
    assert not fresh.exists()
    fresh.mkdir()
    (fresh / "server.log").write_text("why\n")
    up._remove_empty(str(fresh))
    assert (fresh / "server.log").read_text() == "why\n"
