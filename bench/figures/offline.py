"""How long a launch waits for an offline share to leave the card, beside what a best-effort share
costs it: the shipped code on virtual time."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.rows import Row
from tests.support.compute import Tenant, build_simulation, simulate

NAME = "offline"
COMMAND = "python -m bench offline"
SECONDS = 10.5
SETTLED_MS = 500
#: Work of the share that gives way, and the length of its longest kernel in milliseconds, with the
#: 10 % by which lengths vary.
KERNELS = (
    ("kernels of 20 us", "k20us", 0.022),
    ("kernels of 5-100 us", "k5us*20,k20us*20,k100us*5", 0.11),
    ("kernels of 300 us", "k300us", 0.33),
    ("kernels of 3 ms", "k3ms", 3.3),
    ("kernels of 20 ms", "k20ms", 22.0),
)
#: Short work with pauses: what a service does that answers requests.
ONLINE = ("k20us*50,s,h5ms", "k20us*10,s,h700us", "k1ms,s,h1ms", "k20us,s,h300us")


def run(out: Path) -> list[Row]:
    """Virtual time; a burst share of 80 % begins again and again beside the other."""
    with tempfile.TemporaryDirectory() as folder:
        program = build_simulation(Path(folder))
        return [*_list_waits(program), *_list_uses(program)]


def _list_waits(program: Path) -> Iterator[Row]:
    for name, work, longest_ms in KERNELS:
        waits = {
            kind: _find_longest_wait(program, kind, work) for kind in ("offline", "best-effort")
        }
        yield Row(
            f"a launch beside an offline share, {name}: longest wait beyond one kernel",
            "ms",
            round(max(0.0, waits["offline"] - longest_ms), 3),
            COMMAND,
            limit=1.0,
            note=f"longest wait {waits['offline']:.2f}; beside best-effort {waits['best-effort']:.2f}",
        )


def _find_longest_wait(program: Path, sharing: str, work: str) -> float:
    longest = 0
    for online in ONLINE:
        tenants = [Tenant("online", 0.8, "burst", online), Tenant("other", 0.0, sharing, work)]
        outcome = simulate(program, tenants, SECONDS)
        longest = max(longest, outcome.longest_wait_ns["online"])
    return longest / 1e6


def _list_uses(program: Path) -> Iterator[Row]:
    """What the window of work in flight costs the offline share itself."""
    for name, work, _ in KERNELS:
        tenants = [
            Tenant("online", 0.2, "fixed", "k20us,s,h1000ms"),
            Tenant("other", 0.0, "offline", work),
        ]
        outcome = simulate(program, tenants, SECONDS)
        free = 1 - outcome.share("online", SETTLED_MS)
        used = outcome.share("other", SETTLED_MS) / free
        yield Row(
            f"an offline share, {name}: used of what is left", "%", round(100 * used, 1), COMMAND
        )
