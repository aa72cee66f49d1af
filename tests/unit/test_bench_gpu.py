"""What meets a real card is built, and refuses where there is none; the guard's watcher counts what
is asked."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from bench.gpu.__main__ import HERE, build
from tests.gpu.conftest import why_not

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
no_card = pytest.mark.skipif(
    not why_not(), reason="there is a real card here: make gpu-guard asks it"
)


@pytest.fixture(scope="module")
def guard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("guard") / "guard", *sorted((HERE / "guard").glob("*.c")))


def test_the_watcher_counts_an_allocation_and_its_end_from_outside(guard: Path) -> None:
    done = subprocess.run(
        [guard, "--self-test"], capture_output=True, text=True, timeout=60, check=True
    )
    told = json.loads(done.stdout)
    assert (told["answer"], told["asked_bytes"]) == ("yes", 512 << 20)
    assert told["counted_bytes"] == [0, 512 << 20, 0]
    assert told["requests"] == {"0x29": 1, "0x2b": 1}


@no_card
def test_without_a_card_the_guard_touches_nothing_and_says_why(guard: Path) -> None:
    done = subprocess.run([guard], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no /dev/nvidiactl" in done.stderr


def test_words_it_does_not_know_are_refused(guard: Path) -> None:
    done = subprocess.run([guard, "now"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (2, "guard: usage: guard [--self-test]\n")


@no_card
def test_the_bench_of_launches_says_that_there_is_no_driver(tmp_path: Path) -> None:
    program = build(tmp_path / "launches", HERE / "launches.c")
    done = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert done.stderr.startswith("launches: ")
