"""Gangs, jobs that may be preempted, urgent ones and moves, while whatever serves them is killed by
a plan.

The pool is full all the time, so that gangs wait for room, urgent jobs send others back and a move
has somewhere to go.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpupool.base.errors import NotFound, RequestRejection, WriteConflict, WrongState
from gpupool.client.transport import Api
from tests.faults.harness import CI, Campaign, Counts
from tests.faults.load import MIB, Load
from tests.faults.pool import FaultPool, answer_of


class EagerPool(FaultPool):
    """Nobody is protected from preemption, and nobody has long to save his work."""

    def up(self, **faults: str) -> None:
        rules = {
            "GPUPOOL_PREEMPT_AFTER": "0",
            "GPUPOOL_PREEMPT_GRACE": "1",
            "GPUPOOL_PREEMPT_PER_HOUR": "1000000",
        }
        super().up(**rules, **faults)


class GangLoad(Load):
    """Each thread submits gangs and single jobs of every rank, stops some and has others moved."""

    def _actions(self) -> tuple[list[Callable[[Api, random.Random], None]], list[int]]:
        actions: list[Callable[[Api, random.Random], None]] = [
            self._gang, self._patient, self._urgent, self._move, self._stop_one, self._look,
        ]  # fmt: skip
        return actions, [25, 30, 10, 15, 10, 10]

    def _single(self, kinds: tuple[str, ...], chance: random.Random, api: Api, **more: Any) -> None:
        intent = self._truth.intend(chance.choice(kinds), 1)
        shape = {
            "gpu_milli": chance.choice((200, 500, 1000)),
            "memory_bytes": chance.randint(1, 4000) * MIB,
        }
        self._ask(api, chance, intent, self._body(intent, chance) | {"shape": shape, **more})

    def _patient(self, api: Api, chance: random.Random) -> None:
        self._single(("nap", "hold", "hold", "fail"), chance, api, preemptible=True)

    def _urgent(self, api: Api, chance: random.Random) -> None:
        self._single(("quick", "nap"), chance, api, priority="high")

    def _gang(self, api: Api, chance: random.Random) -> None:
        intent = self._truth.intend(chance.choice(("nap", "hold", "fail")), chance.randint(2, 4))
        workers = {
            "name": "worker",
            "count": intent.count - 1,
            "minimum": chance.randint(1, intent.count - 1),
        }
        head = {"name": "head", "count": 1, "launcher": chance.random() < 0.5}
        more = {
            "gang": {"name": intent.token, "parts": [workers, head]},
            "preemptible": chance.random() < 0.7,
        }
        shape = {"gpu_milli": chance.choice((300, 600, 1000)), "memory_bytes": 512 * MIB}
        self._ask(api, chance, intent, self._body(intent, chance) | {"shape": shape, **more})

    def _move(self, api: Api, chance: random.Random) -> None:
        asked = {"cards": chance.choice((1, 2)), "blocks": 1, "max_moves": 4, "seconds": 0}
        moves = answer_of(api, "POST", "defrag/plan", asked)["moves"]
        if not moves:
            return
        try:
            body = {
                "moves": [
                    {key: move[key] for key in ("job", "cards", "generations")} for move in moves
                ]
            }
            answer_of(api, "POST", "defrag/moves", body)
        except (RequestRejection, NotFound, WrongState, WriteConflict):
            return  # the pool is another one by now


class GangCampaign(Campaign):
    """Jobs of this load may run again: each as often as it was sent back, and once more."""

    def __init__(self, directory: Path, seed: int, *, separate_agent: bool) -> None:
        super().__init__(directory, seed, separate_agent=separate_agent)
        self.pool = EagerPool(
            self.pool.paths.root, separate_agent=separate_agent, sim=self.pool.sim
        )
        self.load = GangLoad(self.pool, self.truth, seed, live_at_most=40)

    def by_their_lines(self) -> list[str]:
        wrong = []
        for row in self.pool.rows("SELECT public_id, state, preemptions FROM jobs"):
            began = self.truth.lines_of(row["public_id"]).count("s")
            if began > 1 + row["preemptions"] or (row["state"] == "done" and began == 0):
                sent_back = f"was sent back {row['preemptions']} times"
                wrong.append(
                    f"job {row['public_id']} ({row['state']}) {sent_back} and began {began} times"
                )
        return wrong


def run_gang_campaign(
    directory: Path,
    seed: int,
    kills: int,
    *,
    separate_agent: bool,
    parts: Mapping[str, int] = CI,
    pause: float = 0.3,
) -> Counts:
    """Kill so many times, by this seed, then check everything. Raises Broken."""
    return GangCampaign(directory, seed, separate_agent=separate_agent).run(kills, parts, pause)
