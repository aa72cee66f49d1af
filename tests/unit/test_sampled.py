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

PROPERTIES = """
import pytest
from hypothesis import given, settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, rule

tried = {"many": 0, "few": 0, "lives": 0}

@settings(max_examples=60)
@given(strategies.integers())
def test_many_examples(number):
    tried["many"] += 1

@settings(max_examples=6)
@given(strategies.integers())
def test_few_examples(number):
    tried["few"] += 1

class Lives(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        tried["lives"] += 1

    @rule()
    def step(self):
        pass

Lives.TestCase.settings = settings(max_examples=45, stateful_step_count=1)
TestLives = Lives.TestCase

@pytest.mark.nightly
def test_print_at_night():
    print("tried", tried)

def test_print_usually():
    print("tried", tried)
"""


def run(folder: Path, *arguments: str) -> list[str]:
    options = ["-p", "tests.sampled", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder)]
    command = [sys.executable, "-m", "pytest", "-n", "0", *options, *arguments, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def collect(folder: Path, *arguments: str) -> list[str]:
    lines = run(folder, "--collect-only", *arguments)
    return [line.partition("::")[2] for line in lines if "::" in line]


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


def test_properties_get_a_third_of_their_examples_every_time_and_all_at_night(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_properties.py").write_text(PROPERTIES)

    def count_tried(*chosen: str) -> dict[str, int]:
        (line,) = [line for line in run(tmp_path, "-s", *chosen) if "tried" in line]
        found = line.partition("{")[2].partition("}")[0].split(", ")
        return {
            name.strip("'"): int(number)
            for name, _, number in (one.partition(": ") for one in found)
        }

    assert count_tried("-m", "not nightly") == {"many": 20, "few": 6, "lives": 15}
    assert count_tried("-m", "nightly") == {"many": 60, "few": 6, "lives": 45}
