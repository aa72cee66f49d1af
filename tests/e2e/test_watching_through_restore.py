"""A watcher that lives on while its pool is put back to a backup: it is told, and from then on
misses nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from tests.e2e.pool_fixture import RealPool


class Reading:
    """The lines of a stream as they come."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.lines = list[str]()
        self._stream = stream
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._stream:
            self.lines.append(line.decode())

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]

    def job_events(self, name: str) -> list[str]:
        return [event["kind"] for event in self.events if event["data"].get("name") == name]


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[RealPool]:
    with RealPool(tmp_path / "pool", "1xT4") as running:
        yield running


def test_a_live_watcher_is_told_of_a_restore_and_misses_nothing_after_it(
    pool: RealPool, tmp_path: Path
) -> None:
    watcher = pool.start("events", "--follow", "--last", "0", "-o", "json")
    assert watcher.stdout is not None
    assert watcher.stderr is not None
    out, err = Reading(watcher.stdout), Reading(watcher.stderr)
    try:
        pool.until(
            lambda: (pool.do("run", "--gpu", "0.1", "--", "true"), out.lines)[1],
            "the watcher's first event",
        )
        pool.do("backup", str(tmp_path / "saved"))
        for _ in range(3):  # events whose numbers the restored log gives again
            pool.do("run", "--gpu", "0.1", "--", "true")
        last = pool.json("events", "--last", "1")["seq"]
        pool.until(lambda: out.events[-1]["seq"] >= last, "the watcher having seen all of it")
        before = out.events[-1]["seq"]
        assert err.lines == []

        pool.do("down", "--purge", "--yes")
        pool.do("restore", str(tmp_path / "saved"))
        pool.up()
        pool.until(lambda: err.lines, "the watcher being told")
        assert err.lines[0].startswith("gpupool: GP-4004: "), err.lines
        anew = int(err.lines[0].rpartition("going on after event ")[2])
        seen = len(out.lines)
        for _ in range(3):
            pool.do("run", "--gpu", "0.1", "--", "true")
        end = pool.json("events", "--last", "1")["seq"]
        assert anew < before, "the restored log has given again what the watcher had seen"
        pool.until(
            lambda: out.events[-1]["seq"] >= end and len(out.lines) > seen,
            "the watcher seeing the new events",
        )
        numbers = [event["seq"] for event in out.events]
        first = next(n for n, number in enumerate(numbers) if n and number <= numbers[n - 1])
        assert numbers[first:] == list(range(anew + 1, numbers[-1] + 1)), (
            "none is missed after the word, none comes twice"
        )
        assert numbers[:first] == list(range(numbers[0], before + 1))
        assert len(err.lines) == 2, "it is told once"
    finally:
        watcher.kill()
        watcher.communicate()
