"""What the fence adds to a launch, counted in instructions, which are the same on every machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench.figures.fence_launch import count_outside, instructions
from tests.support.fenced_card import Arbiter, Card, build_load, build_quick_driver

#: Instructions of the fence and of the C library below it; what the driver does is not counted.
#: Valgrind makes a launch so slow that a question or a batch of its own comes to every few launches
#: (to each of them at worst): 390 to 760 were counted with up to six programs on one processor.
MOST_ADDED = 1500


def test_instructions_in_a_library_and_below_calls_into_it_are_not_counted() -> None:
    profile = """events: Ir
ob=(1) /program
fn=(1) main
1 10
cob=(2) /driver
cfn=(2) launch
calls=1 0
2 100
cfn=(3) compare
calls=3 0
3 7
fn=(3)
1 7
ob=(2)
fn=(2)
1 60
cob=(3) /libc
cfn=(4) memcpy
calls=1 0
2 40
ob=(3)
fn=(4)
+1 40

totals: 117
"""
    assert count_outside(profile, {"/driver"}) == 17
    assert count_outside(profile, {"/libc"}) == 77


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_the_launch_path_is_short_with_and_without_a_limit(tmp_path: Path) -> None:
    load, card, arbiter = (
        build_load(tmp_path),
        Card(tmp_path, driver=build_quick_driver(tmp_path)),
        Arbiter(),
    )
    free, shared = card.share("free", 1000), card.share("shared", 900, "burst")
    arbiter.add(shared)
    bare = instructions(load, card, None)
    assert instructions(load, card, free) - bare <= MOST_ADDED
    assert instructions(load, card, shared) - bare <= MOST_ADDED
    assert instructions(load, card, free, fair=False) - bare <= MOST_ADDED
    assert arbiter.close() == 0
