"""What the fence adds to a launch, counted in instructions, which are the same on every machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench.figures.fence_launch import instructions
from tests.support.fenced_card import Arbiter, Card, build_load

MOST_ADDED = 3000
"""Of these the simulated driver spends most on events. Valgrind makes a launch so slow that nearly every one finds its
stream idle and its kernel measured too long by a varying time, so that many are measured one by one: 1,130 to 2,360
were counted, the more the busier the machine. More is a change that somebody should have noticed."""

MOST_ADDED_UNHARVESTED = 6000
"""While the thread that looks after what was launched has no processor, whoever launches does its work at times."""


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_the_launch_path_is_short_with_and_without_a_limit(tmp_path: Path) -> None:
    load, card, arbiter = build_load(tmp_path), Card(tmp_path), Arbiter()
    free, shared = card.share("free", 1000), card.share("shared", 900, "burst")
    arbiter.add(shared)
    bare = instructions(load, card, None)
    assert instructions(load, card, free) - bare <= MOST_ADDED
    assert instructions(load, card, shared) - bare <= MOST_ADDED
    assert instructions(load, card, free, fair=False) - bare <= MOST_ADDED_UNHARVESTED
    assert arbiter.close() == 0
