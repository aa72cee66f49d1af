"""What the fence adds to a launch, counted in instructions, which are the same on every machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench.figures.fence_launch import instructions
from tests.support.fenced_card import Arbiter, Card, build_load, build_quick_driver

MOST_ADDED = 1500
"""On a driver whose launches cost nothing, so that its own work is not counted. Valgrind makes a launch so slow that
a question or a batch of its own comes to every few launches: 290 to 1,030 were counted at a load of 20 on two
processors. More is a change that somebody should have noticed."""


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_the_launch_path_is_short_with_and_without_a_limit(tmp_path: Path) -> None:
    load, card, arbiter = build_load(tmp_path), Card(tmp_path, driver=build_quick_driver(tmp_path)), Arbiter()
    free, shared = card.share("free", 1000), card.share("shared", 900, "burst")
    arbiter.add(shared)
    bare = instructions(load, card, None)
    assert instructions(load, card, free) - bare <= MOST_ADDED
    assert instructions(load, card, shared) - bare <= MOST_ADDED
    assert instructions(load, card, free, fair=False) - bare <= MOST_ADDED
    assert arbiter.close() == 0
