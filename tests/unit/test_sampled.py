"""Of a sampled test one case in so many is left in the ordinary run, whatever else is collected."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = """
import pytest

@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", range(7))
def test_many(number):
    pass

@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", range(2))
def test_two(number):
    pass

def test_usual():
    pass
"""


def collect(folder: Path, *arguments: str) -> list[str]:
    options = ["-p", "tests.sampled", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder)]
    command = [sys.executable, "-m", "pytest", "--collect-only", *options, *arguments, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line]


def test_some_cases_are_left_every_time_and_the_rest_at_night(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    usual = collect(tmp_path, "-m", "not nightly")
    nightly = collect(tmp_path, "-m", "nightly")
    everything = [f"test_many[{n}]" for n in range(7)] + ["test_two[0]", "test_two[1]"]
    assert sorted([*usual, *nightly]) == sorted([*everything, "test_usual"])
    assert sum(name.startswith("test_many") for name in usual) in (2, 3)
    assert sum(name.startswith("test_two") for name in usual) == 1
    assert "test_usual" in usual
    assert collect(tmp_path, "-m", "not nightly") == usual
