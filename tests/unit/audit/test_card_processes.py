"""What is said of cards that answer in part, or not."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.audit.card_processes import CardProcesses
from gpupool.audit.mapping_check import FencedJob
from gpupool.audit.reactions import FindingReactions
from gpupool.base.errors import BadMachine
from gpupool.mechanisms.fenced_files import FencedFiles
from gpupool.mechanisms.regions import ShareLimits
from gpupool.model.device import DeviceUsage
from gpupool.probes.simulated import SimulatedProbe, parse_sim

(MACHINE,) = parse_sim("1xL40S", "n0")
CARD = MACHINE.devices[0]
JOB = FencedJob("job-1", "al-1", 1)
LIMITS = ShareLimits("al-1", "job-1", "t", "soft", ())
FILES = FencedFiles(Path("l"), Path("g"), Path("u"), (CARD.uuid,), LIMITS, simulated=False)


class Card(SimulatedProbe):
    """A real card's driver that tells no time of processes, or nothing."""

    ill = ""
    times: Mapping[str, Mapping[int, int]] = {}

    def observe(self, uuids: Collection[str]) -> Mapping[str, DeviceUsage]:
        if self.ill:
            raise BadMachine(self.ill)
        return {CARD.uuid: DeviceUsage(processes=())}

    def process_times(self, uuids: Collection[str]) -> Mapping[str, Mapping[int, int]]:
        return self.times


@pytest.fixture
def card() -> Card:
    return Card(MACHINE)


@pytest.fixture
def cards(card: Card) -> CardProcesses:
    made = CardProcesses({MACHINE.name: card})
    made.update_machines({MACHINE.name: MACHINE})
    return made


def test_a_driver_that_tells_no_time_of_processes_is_said_until_it_does(
    card: Card, cards: CardProcesses
) -> None:
    cards.list_processes([(JOB, FILES)])
    assert "does not tell the GPU time of its processes" in cards.explain_unseen(FILES)
    assert cards.explain_unseen(replace(FILES, simulated=True)) == ""
    card.times = {CARD.uuid: {}}
    cards.list_processes([(JOB, FILES)])
    assert cards.explain_unseen(FILES) == ""


def test_cards_that_cannot_be_asked_are_said_with_the_reason(
    card: Card, cards: CardProcesses
) -> None:
    card.ill = "its file is damaged"
    assert cards.list_processes([(JOB, FILES)]) == {}
    assert "its cards cannot be asked: " in cards.explain_unseen(FILES)
    assert card.ill in cards.explain_unseen(FILES)


def test_what_cannot_be_seen_is_told_once_while_it_lasts_and_ends_nobody() -> None:
    told: list[tuple[str, str]] = []
    killed: list[str] = []
    answering = FindingReactions(
        "kill",
        lambda _one, finding, reaction: told.append((finding.kind, reaction)),
        lambda _one, reason: killed.append(reason),
    )
    for why in ("no time", "no time", "", "no time"):
        answering.report_unseen(JOB, why)
    assert (told, killed) == ([("unseen", "warn")] * 2, [])
