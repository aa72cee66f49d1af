"""`gpupool logs`: bytes as they are, from the start or near the end."""

from __future__ import annotations

import base64
import os
import signal
from pathlib import Path

import pytest

from gpupool.base.client_settings import ClientSettings
from gpupool.cli.main import main
from gpupool.cli.work import logs
from gpupool.client.transport import Api
from tests.unit.cli.sample import job
from tests.unit.client.scripted_pool import HANG_UP, Request, ScriptedPool, reply


def log_pool(state_dir: Path, data: bytes, *, dropped: int = 0) -> ScriptedPool:
    """A job's log as the server reads it; `dropped` bytes have been rotated away."""

    def answer(asked: Request) -> bytes:
        if "/logs" not in asked.target:
            return reply(job("train", "done", exit_code=5))
        query = dict(part.split("=") for part in asked.target.partition("?")[2].split("&"))
        offset, limit = int(query["offset"]), int(query["limit"])
        start = max(dropped, len(data) + dropped + offset if offset < 0 else offset)
        piece = data[start - dropped :][:limit]
        return reply(
            {
                "data": base64.b64encode(piece).decode(),
                "offset": start,
                "next_offset": start + len(piece),
                "dropped_bytes": max(0, start - max(0, offset)) if dropped else 0,
                "ended": start + len(piece) == len(data) + dropped,
            }
        )

    return ScriptedPool(state_dir, answer)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ([], b"one\ntwo\n\xff\nfour"),
        (["-n", "2"], b"\xff\nfour"),
        (["-n", "0"], b""),
        (["-n", "99"], b"one\ntwo\n\xff\nfour"),
    ],
)
def test_logs_are_bytes_and_can_begin_near_the_end(
    words: list[str], shown: bytes, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    with log_pool(tmp_path, b"one\ntwo\n\xff\nfour"):
        assert main(["--state-dir", str(tmp_path), "logs", *words, "train"]) == 0
    assert capfdbinary.readouterr().out == shown


def test_a_last_line_with_its_end_counts_as_one_line(tmp_path: Path) -> None:
    with log_pool(tmp_path, b"one\ntwo\n") as running:
        from gpupool.base.client_settings import ClientSettings

        assert logs._find_tail(Api(ClientSettings(state_dir=running.state_dir)), "train", 1) == 4


def test_a_long_log_is_read_piece_by_piece(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "PIECE", 1000)
    data = os.urandom(10_500)
    with log_pool(tmp_path, data):
        assert main(["--state-dir", str(tmp_path), "logs", "-f", "--exit-code", "train"]) == 5
    assert capfdbinary.readouterr().out == data


def test_bytes_that_were_rotated_away_are_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with log_pool(tmp_path, b"rest\n", dropped=7):
        assert main(["--state-dir", str(tmp_path), "logs", "train"]) == 0
    assert capfd.readouterr() == (
        "rest\n",
        "gpupool: 7 bytes before this were dropped (rotation or quota)\n",
    )


@pytest.mark.parametrize("has_answer", [True, False])
def test_ctrl_c_before_the_answer_to_a_submission_stops_what_was_submitted(
    tmp_path: Path, has_answer: bool
) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    keys = list[str]()

    def answer(asked: Request) -> bytes:
        if asked.target.endswith("/stop"):
            return reply([job("train", "stopped")])
        keys.append(asked.headers["idempotency-key"])
        if len(keys) == 1:
            os.kill(os.getpid(), signal.SIGINT)
            if not has_answer:
                return HANG_UP
        return reply({"first": job("train", "pending"), "array": None, "count": 1}, 201)

    try:
        with ScriptedPool(tmp_path, answer) as pool, Api(ClientSettings(state_dir=tmp_path)) as api:
            with pytest.raises(KeyboardInterrupt):
                logs.submit_followed_job(api, {"shape": {}})
            stopped = [one.target for one in pool.requests if one.target.endswith("/stop")]
    finally:
        signal.signal(signal.SIGINT, before)
    assert stopped == [f"/api/v1/jobs/{job('train', 'pending')['id']}/stop"]
    assert len(set(keys)) == 1 < len(keys)
