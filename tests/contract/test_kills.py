"""Calls of every mechanism, layer and mode switch, killed at every change that they make.

A kill is real: the call runs in a forked child that ends, without any clean-up, before its n-th change to
a file, or before or after a change of the kernel or driver that the rig plays.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.faults.mechanism_campaign import run_mechanism_campaign
from tests.support.kill_rigs.contract import KillRig, RigAbsent, list_differences
from tests.support.kill_rigs.registry import RIGS, list_without_rig

#: Changes between two kills, so that the tests of all rigs take a few seconds; the bench
#: `mechanism-kills` kills at all of them. Machines after a colon share most of their code with others.
STRIDES = {
    "mechanism fence": 3,
    "mechanism mig": 3,
    "mechanism mps": 5,
    "mechanism passthrough": 5,
    "mechanism sriov": 7,
    "mechanism vgpu": 7,
    "layer memgroup": 3,
    "switch passthrough": 3,
    "switch sriov": 3,
    "switch vgpu": 3,
}
OTHER_STRIDE = 13
#: The compute partition modes are one code; CPX is killed at every change.
STRIDES |= dict.fromkeys(("switch dpx", "switch tpx", "switch qpx"), 3)
#: Of the random kills: every fourth rig. The bench takes all of them.
CHOSEN = list(RIGS)[::4]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: a socket's may have 108 bytes."""
    with tempfile.TemporaryDirectory(prefix="gp") as path:
        yield Path(path)


@pytest.fixture
def rig(request: pytest.FixtureRequest, folder: Path) -> Iterator[KillRig]:
    try:
        with RIGS[request.param](folder) as built:
            yield built
    except RigAbsent as reason:
        pytest.skip(str(reason))


def find_stride(name: str) -> int:
    return OTHER_STRIDE if ":" in name else STRIDES.get(name, 1)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("rig", "stride"),
    [(name, find_stride(name)) for name in RIGS],
    indirect=["rig"],
    ids=list(RIGS),
)
def test_a_kill_at_any_change_is_finished_or_undone(rig: KillRig, stride: int) -> None:
    before = rig.live_once()
    rig.begin()
    ready = rig.read_world()
    rig.undo()
    kills = 0
    for verb, call in rig.calls.items():
        for kind, kill in rig.killers.items():
            for number in count(step=stride):
                where = f"{verb} killed at {kind} {number}"
                if call is not rig.begin:
                    rig.begin()
                killed = kill(number, call)
                kills += killed
                if kills % 2:
                    call()
                    assert call is rig.undo or rig.find_problem() == "", where
                    assert call is not rig.begin or not list_differences(ready, rig.read_world()), (
                        where
                    )
                rig.undo()
                assert not list_differences(before, rig.read_world()), where
                if not killed:
                    break
    assert kills >= 4, "the kills did not reach into the calls"


def test_everything_that_is_registered_has_a_rig() -> None:
    assert list_without_rig() == []


def test_random_kills_leave_nothing(folder: Path) -> None:
    counts = run_mechanism_campaign(2 * len(CHOSEN), 15, folder, CHOSEN)
    assert counts.leaks == []
    assert counts.total >= 2 * (len(CHOSEN) - len(counts.absent))
    for name in set(CHOSEN) - counts.absent.keys():
        assert counts.count_rig(name) > 0, name
