"""Honest programs whose one kernel takes another time at each launch, on virtual time: a list, and
random ones."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.audited import found_in
from tests.support.compute import Outcome, Tenant, simulate

LENGTHS: Mapping[str, str] = {
    "constant 20 us": "lengths=20us jitter=0",
    "constant 250 us": "lengths=250us jitter=0",
    "80, 60, 400, 300 us in turn": "lengths=80us/60us/400us/300us",
    "7 x 20 us, then 3 ms": "lengths=20us/20us/20us/20us/20us/20us/20us/3ms",
    "90 % 20 us, 10 % 10 ms": "lengths=20us/20us/20us/20us/20us/20us/20us/20us/20us/10ms draw=any",
    "uniform 20 us to 2 ms": "lengths=20us/2ms draw=between",
    "lognormal, median 100 us": "lengths=15us/27us/40us/54us/70us/89us/112us/143us/186us/254us/380us/760us draw=any",
    "always the one not predicted": "lengths=20us/5ms draw=contrary",
    "50 or 150 us": "lengths=50us/150us draw=any",
    "200 us or 1 ms": "lengths=200us/1ms draw=any",
}
WAITS: Mapping[str, str] = {
    "never": "v",
    "after each": "v,s",
    "after 4": "v*4,s",
    "after 8": "v*8,s",
    "after 16": "v*16,s",
    "after 128": "v*128,s",
    "and 200 us of host work after each": "v,s,h200us",
    "and 2 ms of host work after 8": "v*8,s,h2ms",
    "host work of 200 us in between": "v,h200us",
    "host work of 2 ms after 16": "v*16,h2ms",
    "unseen after each": "v,p",
    "unseen after 8": "v*8,p",
    "unseen after 128": "v*128,p",
    "unseen after 8, and 200 us of host work": "v*8,p,h200us",
}
WINDOW_MS = 5000
SETTLED_MS = 500
SECONDS = 8.0
ERROR_POINTS = 3.0
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)


@dataclass(frozen=True)
class Load:
    """One honest program: its work and options as fence_compute_sim.c reads them, and in how many
    processes it runs."""

    work: str
    options: str
    processes: int = 1

    def tenant(self, name: str, share: float) -> Tenant:
        options = (
            f"{self.options} processes={self.processes}" if self.processes > 1 else self.options
        )
        return Tenant(name, share, work=self.work, options=options)


def random_load(chance: random.Random, most_processes: int = 1) -> Load:
    """Any lengths in any order, any way to wait, any work of the host in between."""
    lengths = "/".join(
        f"{round(10 ** chance.uniform(0.7, 4.2))}us" for _ in range(chance.randint(1, 12))
    )
    draw = chance.choice(("cycle", "any", "any"))
    launches = chance.choice(("v", "v*4", "v*16", "v*64", "t0,v*3,t1,v*3", "v,k30us,v*7"))
    wait = chance.choice(("", ",s", ",s", ",p"))
    host = chance.choice(("", "", f",h{chance.randint(5, 3000)}us"))
    return Load(
        launches + wait + host, f"lengths={lengths} draw={draw}", chance.randint(1, most_processes)
    )


def alone(program: Path, load: Load, share: float, seconds: float = SECONDS) -> Outcome:
    """The program below a fixed share, with nobody beside it."""
    return simulate(program, [load.tenant("a", share)], seconds)


def errors(program: Path, load: Load, share: float) -> tuple[float, float]:
    """The most that it had beyond and below what it was to have in 5 s, in points of the card.

    It is to have its share, or as much as it takes of a card of its own where that is less.
    AssertionError if the audit of time finds it, since the job would be ended.
    """
    outcome = alone(program, load, share)
    assert not found_in(outcome, load.tenant("a", share)), (load, share)
    had = outcome.shares("a", WINDOW_MS, SETTLED_MS)
    wanted = share
    if min(had) < share - ERROR_POINTS / 100:
        wanted = min(share, *alone(program, load, 1.0).shares("a", WINDOW_MS, SETTLED_MS))
    return 100 * (max(had) - share), 100 * (min(had) - wanted)
