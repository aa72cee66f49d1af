"""The server's log stays small: so often from one line of the code, so large as a file."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

from gpupool.host.server_log import BURST, EVERY_SECONDS, RateLimit


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def record(line: int, text: str = "no descriptors left for %s", *args: object) -> logging.LogRecord:
    return logging.LogRecord(
        "asyncio", logging.ERROR, "somewhere.py", line, text, args or ("7",), None
    )


def test_a_line_that_repeats_itself_is_cut_off_and_says_later_how_often() -> None:
    clock = Clock()
    limit = RateLimit(clock)
    assert sum(limit.filter(record(1)) for _ in range(1000)) == BURST
    assert limit.filter(record(2)), "another line of the code has its own"
    clock.now = EVERY_SECONDS
    later = record(1)
    assert limit.filter(later)
    assert (
        later.getMessage()
        == f"no descriptors left for 7 ({1000 - BURST} more like this were left out)"
    )
    clock.now = 2 * EVERY_SECONDS
    quiet = record(1)
    assert limit.filter(quiet)
    assert quiet.getMessage() == "no descriptors left for 7"


def test_a_log_that_grows_begins_anew_and_keeps_one_before_it(tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    code = f"""
import logging, pathlib, sys
from gpupool.host import server_log
handler = server_log.RotatingHandler(pathlib.Path({str(file)!r}), most_bytes=10_000)
logging.basicConfig(level=logging.INFO, handlers=[handler])
for n in range(1000):
    logging.info("record %d of a thousand, each of a few dozen bytes", n)
print("and what is only printed is in it too", flush=True)
"""
    with open(file, "ab") as log:
        subprocess.run([sys.executable, "-c", code], stdout=log, stderr=log, check=True)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["server.log", "server.log.1"]
    for one in tmp_path.iterdir():
        assert one.stat().st_size < 11_000
    text = (tmp_path / "server.log").read_text()
    assert "record 999 " in text
    assert text.endswith("and what is only printed is in it too\n")
    assert os.stat(file).st_mode & 0o777 == 0o600


def test_a_log_that_is_somebody_elses_file_is_only_written_to(tmp_path: Path) -> None:
    other = tmp_path / "journal"
    code = f"""
import logging, pathlib
from gpupool.host import server_log
handler = server_log.RotatingHandler(pathlib.Path({str(tmp_path / "server.log")!r}), 100)
logging.basicConfig(level=logging.INFO, handlers=[handler])
for n in range(100):
    logging.info("record %d", n)
"""
    with open(other, "ab") as log:
        subprocess.run([sys.executable, "-c", code], stdout=log, stderr=log, check=True)
    assert [one.name for one in tmp_path.iterdir()] == ["journal"]
    assert len(other.read_text().splitlines()) == 100
