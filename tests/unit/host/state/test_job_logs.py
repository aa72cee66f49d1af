"""Waiting for output without looking again and again."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

from gpupool.host.state.file_watch import await_directory_change
from gpupool.host.state.job_logs import LocalLogs


def test_a_job_without_a_log_has_none(tmp_path: Path) -> None:
    assert LocalLogs(tmp_path).read("j-none", 0, 10) is None


def test_reading_from_the_end_counts_backwards(tmp_path: Path) -> None:
    directory = tmp_path / "j-1"
    directory.mkdir()
    (directory / "log.0").write_bytes(b"first\n")
    (directory / "log.6").write_bytes(b"second\n")
    logs = LocalLogs(tmp_path)
    chunk = logs.read("j-1", -7, 100)
    assert chunk is not None
    assert (chunk.data, chunk.offset, chunk.next_offset) == (b"second\n", 6, 13)
    whole = logs.read("j-1", -999, 100)
    assert whole is not None
    assert whole.data == b"first\nsecond\n"


def test_a_write_wakes_the_waiter_long_before_its_time(tmp_path: Path) -> None:
    file = tmp_path / "log.0"
    file.write_bytes(b"")

    async def wait() -> float:
        started = time.monotonic()
        asyncio.get_running_loop().call_later(
            0.05, threading.Thread(target=file.write_bytes, args=(b"x",)).start
        )
        await await_directory_change(tmp_path, 60)
        return time.monotonic() - started

    assert asyncio.run(wait()) < 30


def test_output_that_came_before_the_wait_ends_it_at_once(tmp_path: Path) -> None:
    directory = tmp_path / "j-1"
    directory.mkdir()
    (directory / "log.0").write_bytes(b"first\n")
    logs = LocalLogs(tmp_path)

    async def wait(known: int, seconds: float) -> bool:
        waiter = asyncio.create_task(logs.wait_for_change("j-1", known, seconds))
        await asyncio.sleep(0)
        is_over = waiter.done()
        await waiter
        return is_over

    assert asyncio.run(wait(5, 60))
    assert not asyncio.run(wait(6, 0.01))


def test_waiting_for_a_quiet_directory_ends_with_its_time_and_for_a_missing_one_at_once(
    tmp_path: Path,
) -> None:
    asyncio.run(await_directory_change(tmp_path, 0.01))
    with pytest.raises(FileNotFoundError):
        asyncio.run(await_directory_change(tmp_path / "no", 60))
