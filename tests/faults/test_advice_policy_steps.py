"""A server killed just before and just after the commit of each change by an advice policy.

Afterwards each change is made once and whole: the seat, the row that says what was asked, the event.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpupool.store.faults import STEPS
from tests.support.advice_policies import (
    ADVISED,
    ASKED,
    list_kinds,
    look,
    read_size,
    set_policy,
)
from tests.support.idle_house import IdleHouse
from tests.support.measured_runs import measure, reopen_house, run_family
from tests.support.resizing import running

KINDS = ("job.advised", "job.advice-applied", "job.advice-returned", "advice.family-paused")
#: Runs `act` on a pool in which the server dies at a step of a write with an event of that kind.
PROGRAM = """
import sys
from pathlib import Path
from tests.faults.test_advice_policy_steps import act_until_killed
act_until_killed(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
"""


def act_until_killed(directory: Path, step: str, kind: str) -> None:
    """Prepare a pool, and do what writes such an event."""
    import os

    house = IdleHouse(directory)
    run_family(house, "train", [0.1] * 5)
    if kind == "job.advice-applied":
        running(house, "train-9", *(500, 16))
    set_policy(house, target="both")

    def die(at: str, subjects: object) -> None:
        assert callable(subjects)
        if at == step and kind in subjects():
            os.kill(os.getpid(), signal.SIGKILL)

    house.store._fault = die
    look(house)
    running(house, "train-9", *(500, 16))
    measure(house, "train-9", 0.15, samples=6)
    if kind == "advice.family-paused":
        house.finish("train-9")
    look(house)


@pytest.mark.nightly  # the repeated look of the ordinary run is in tests/unit/allocations/rightsizing
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", STEPS)
def test_a_change_is_whole_whenever_the_server_is_killed(
    tmp_path: Path, step: str, kind: str
) -> None:
    root = str(Path(__file__).parents[2])
    words = [sys.executable, "-c", PROGRAM, str(tmp_path), step, kind]
    done = subprocess.run(words, cwd=root, check=False, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr

    house = reopen_house(tmp_path)
    try:
        look(house)
        if kind == "job.advised" and step == "before-commit":
            # Nothing of the submission is there; its client sends it again.
            assert list_kinds(house) == []
            running(house, "train-9", *(500, 16))
        look(house)
        wanted = ASKED if kind == "job.advice-returned" else ADVISED
        if kind != "advice.family-paused":
            assert read_size(house.job("train-9")) == wanted
        kinds = list_kinds(house)
        assert kinds.count(kind) == 1
        assert len(kinds) == len(set(kinds))
    finally:
        house.close()
