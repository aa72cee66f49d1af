"""`gpupool up`: the host's flags, the log file, and the welcome."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from gpupool.base.errors import StateUnusable
from gpupool.cli.pool import host_process, up
from tests.unit.cli.golden import compare
from tests.unit.cli.sample import cards, pool


def test_the_welcome_says_cards_places_next_steps_and_how_to_stop() -> None:
    text = up.format_welcome(
        pool(),
        cards(),
        ["/tmp/pool/gpupool.sock", "http://127.0.0.1:8470"],
        chosen=" --state-dir /tmp/pool",
    )
    text += "\n=== detached\n" + up.format_welcome(
        {**pool(), "jobs_live": 0}, [], [], detached=True
    )
    compare("welcome", text + "\n")


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
