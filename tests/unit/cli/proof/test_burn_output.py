"""What `gpupool burn` writes: text for people, JSON for programs, changes of memory once each."""

from __future__ import annotations

import json
import os
import threading

import pytest

from gpupool.cli.proof.burn_output import LineWriter, MemoryWatch


def test_a_fact_without_a_text_is_for_programs_alone(capsys: pytest.CaptureFixture[str]) -> None:
    for output in ("text", "json"):
        LineWriter(output).write_line("memory", free_bytes=7)
        LineWriter(output).write_line("card", "one card", free_bytes=7)
    text, first, second = capsys.readouterr().out.splitlines()
    assert text == "one card"
    assert json.loads(first) == {"kind": "memory", "pid": os.getpid(), "free_bytes": 7}
    assert json.loads(second)["kind"] == "card"


class Driver:
    """Gives the amounts one after the other, then the last one."""

    def __init__(self, *totals: int) -> None:
        self.totals = list(totals)
        self.all_read = threading.Event()
        self.current_in: list[str] = []

    def make_current(self) -> None:
        self.current_in.append(threading.current_thread().name)

    def read_memory(self) -> tuple[int, int]:
        if len(self.totals) == 1:
            self.all_read.set()
            return 0, self.totals[0]
        return 0, self.totals.pop(0)


def test_memory_watch_reports_each_change_once(capsys: pytest.CaptureFixture[str]) -> None:
    driver = Driver(1 << 20, 1 << 20, 2 << 20, 2 << 20, 1 << 20)
    with MemoryWatch(driver, True, LineWriter("text")):
        assert driver.all_read.wait(60)
    assert capsys.readouterr().out.splitlines() == [
        "the card shows 1 MiB",
        "the card shows 2 MiB",
        "the card shows 1 MiB",
    ]
    assert driver.current_in == ["memory"]


def test_memory_watch_that_is_not_wanted_asks_nothing() -> None:
    driver = Driver(1 << 20)
    with MemoryWatch(driver, False, LineWriter("text")):
        pass
    assert (driver.current_in, driver.all_read.is_set()) == ([], False)
