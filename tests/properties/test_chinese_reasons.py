"""Why a claim waits, and what would help it, is said in Chinese without a rest of English."""

from __future__ import annotations

import re

from hypothesis import given

from gpupool.scheduling.explain.explain import explain_claim
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.terminal.chinese.translator import load_translator
from tests.properties.test_scheduling import fewer, mixtures, snapshots

#: Two English words in a row, where neither is part of a command, an option or a label.
PROSE = re.compile(r"(?<![\w/.=-])[a-z']{2,} [a-z']{2,}(?![\w/=-])")
COMMAND = re.compile(r"gpupool [a-z -]+")


@fewer
@given(snapshots())
def test_what_is_told_of_a_claim_has_chinese(before: Snapshot) -> None:
    check_all(before)


@fewer
@given(mixtures())
def test_what_is_told_of_a_gang_has_chinese(before: Snapshot) -> None:
    check_all(before)


def check_all(before: Snapshot) -> None:
    translate = load_translator().translate
    for waiting in before.waiting:
        told = explain_claim(before, waiting, 0)
        for text in (told.sentence, *told.helps):
            chinese = translate(text)
            assert not PROSE.search(COMMAND.sub("", chinese)), (text, chinese)
