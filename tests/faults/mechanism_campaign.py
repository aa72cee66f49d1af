"""Random kills over prepare, switch and unprepare of every mechanism, layer and mode switch.

Each life begins on the world of the life before it. A call is killed at a random change; then the
next agent either goes on or undoes at once; after the undo the world must be as before, byte for
byte.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.kill_rigs.contract import KillRig, RigAbsent, list_differences
from tests.support.kill_rigs.registry import RIGS, list_without_rig

#: First guess at the changes of a call; a call that comes to its end lowers it.
_MOST_CHANGES = 96


@dataclass
class KillCounts:
    """What a campaign did and found.

    Attributes:
        kills: by rig and verb.
        leaks: what was left, in words.
        absent: rigs that this machine cannot build, with the reason.
    """

    kills: Counter[tuple[str, str]] = field(default_factory=Counter)
    leaks: list[str] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return self.kills.total()

    def count_rig(self, name: str) -> int:
        """Return how often calls of a rig were killed."""
        return sum(count for (rig, _), count in self.kills.items() if rig == name)


def run_mechanism_campaign(
    kills: int, seed: int, folder: Path, names: Iterable[str] = RIGS
) -> KillCounts:
    """Kill at least that often, as often in each rig as in the others.

    Raises:
        AssertionError: something is registered without a rig, or a call fails by itself.
    """
    missing = list_without_rig()
    assert not missing, f"no rig in tests/support/kill_rigs for {', '.join(missing)}"
    chosen = list(names)
    counts = KillCounts()
    for number, name in enumerate(chosen):
        # Of what is left, so that absent rigs leave their kills to the later ones.
        wanted = -(-(kills - counts.total) // (len(chosen) - number))
        place = folder / str(number)
        place.mkdir()
        try:
            with RIGS[name](place) as rig:
                _kill_at_random(rig, name, wanted, random.Random(f"{seed} {name}"), counts)
        except RigAbsent as reason:
            counts.absent[name] = str(reason)
    return counts


def _kill_at_random(
    rig: KillRig, name: str, wanted: int, chance: random.Random, counts: KillCounts
) -> None:
    before = rig.live_once()
    most: dict[tuple[str, str], int] = {}
    kills = 0
    while kills < wanted:
        verb = chance.choice(list(rig.calls))
        kind = chance.choice(list(rig.killers))
        call = rig.calls[verb]
        if call is not rig.begin:
            rig.begin()
        number = chance.randrange(most.get((verb, kind), _MOST_CHANGES))
        if rig.killers[kind](number, call):
            kills += 1
            counts.kills[name, verb] += 1
        else:
            most[verb, kind] = max(number, 1)
        if chance.random() < 0.5:
            call()
        rig.undo()
        after = rig.read_world()
        if after != before:
            left = ", ".join(list_differences(before, after))
            counts.leaks.append(f"{name}, {verb} killed at {kind} {number}: {left}")
            before = after
