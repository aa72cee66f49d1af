"""tests/support/cpu_times.py, in runs of pytest of their own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUSY = """
import subprocess, sys, time

def test_works():
    begin = time.process_time()
    while time.process_time() - begin < 0.3:
        pass

def test_starts_a_program():
    subprocess.run([sys.executable, "-c", "sum(range(10_000_000))"], check=True)

def test_fails():
    assert False
"""
IDLE = """
def test_nothing():
    pass
"""


@pytest.mark.parametrize("workers", ["2"])
def test_files_are_listed_by_their_processor_time(tmp_path: Path, workers: str) -> None:
    (tmp_path / "test_busy.py").write_text(BUSY)
    (tmp_path / "test_idle.py").write_text(IDLE)
    words = ["-n", workers, "-p", "tests.support.cpu_times", "-p", "no:cacheprovider", "-q"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, str(tmp_path)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    rows = re.findall(r"^ *([\d.]+) +([\d.]+) +(\d+)  (test_\w+\.py|in all)$", done.stdout, re.M)
    assert [(row[3], row[2]) for row in rows] == [
        ("test_busy.py", "3"),
        ("test_idle.py", "1"),
        ("in all", "4"),
    ]
    assert float(rows[0][0]) >= 0.3
