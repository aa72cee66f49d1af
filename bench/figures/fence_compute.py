"""How exactly shares of a card's time hold: the shipped code on virtual time, and real processes on
the wall clock."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.rows import Row
from tests.support.compute import (
    LONG_WORK,
    SMALL,
    WORK,
    Outcome,
    Tenant,
    build_simulation,
    jain,
    simulate,
)
from tests.support.fenced_card import Arbiter, Card, build_load, run_together

NAME = "fence-compute"
COMMAND = "python -m bench fence-compute"
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
SETTLED_MS = 500
ALL_WORK = {**WORK, **LONG_WORK}


def run(out: Path) -> list[Row]:
    """Virtual time: the worst of all shares beside one that wants the rest. Wall clock: what this
    machine had."""
    with tempfile.TemporaryDirectory() as folder:
        program = build_simulation(Path(folder))
        rows = [row for name, work in ALL_WORK.items() for row in _accuracy(program, name, work)]
        rows += [*_equal(program), *_borrowed(program), _killed(program), _resized(program)]
        rows += _wall_clock(Path(folder))
    return rows


def _row(figure: str, unit: str, ours: float, limit: float | None, note: str = "") -> Row:
    return Row(f"shares, {figure}", unit, round(ours, 4), COMMAND, limit=limit, note=note)


def _accuracy(program: Path, name: str, work: str) -> Iterator[Row]:
    outcomes: list[tuple[float, Outcome]] = []
    for share in SHARES:
        tenants = [Tenant("a", share, work=work), Tenant("b", 1 - share, work=work)]
        outcomes.append((share, simulate(program, tenants, 10.6)))
    windows = ((1000, 3.0), (10_000, 1.0))
    for window, limit in windows:
        worst = max(
            outcome.worst_error("a", share, window, SETTLED_MS) for share, outcome in outcomes
        )
        yield _row(f"{name}: worst error over {window // 1000} s", "points", worst, limit)
    lost = max(1 - outcome.share("a", SETTLED_MS) / share for share, outcome in outcomes)
    yield _row(f"{name}: most of the entitled time not had", "%", max(0.0, 100 * lost), 3)
    off = max(
        abs(
            outcome.share("b", SETTLED_MS) / outcome.share("a", SETTLED_MS) * share / (1 - share)
            - 1
        )
        for share, outcome in outcomes
    )
    yield _row(f"{name}: ratio of two tenants, worst error", "%", 100 * off, 5)


def _equal(program: Path) -> Iterator[Row]:
    for name, work in WORK.items():
        outcome = simulate(program, [Tenant(f"t{i}", 0.125, work=work) for i in range(8)], 10.6)
        shares = [outcome.share(f"t{i}", SETTLED_MS) for i in range(8)]
        unfair = 1 - jain(shares)
        yield _row(
            f"8 equal tenants, {name}: 1 - Jain's index",
            "",
            unfair,
            0.02,
            f"together {sum(shares):.3f}",
        )


def _borrowed(program: Path) -> Iterator[Row]:
    for name, work in ALL_WORK.items():
        alone = simulate(program, [Tenant("a", 0.2, "burst", work)], 4)
        bare = simulate(program, [Tenant("a", 1.0, "fixed", work)], 4)
        lost = 1 - alone.share("a", SETTLED_MS) / bare.share("a", SETTLED_MS)
        yield _row(
            f"a lone burst tenant, {name}: not had of the card", "%", max(0.0, 100 * lost), 3
        )
        tenants = [
            Tenant("a", 0.2, "burst", work),
            Tenant("b", 0.8, "burst", SMALL, "start_ms=2000"),
        ]
        waited = simulate(program, tenants, 4).first_use_ms("b", 2000, 0.5)
        yield _row(f"a lone burst tenant, {name}: gives back after", "ms", waited, 200)


def _killed(program: Path) -> Row:
    worst = 0.0
    for moment in range(2000, 2040, 4):
        outcome = simulate(
            program, [Tenant("a", 0.3), Tenant("b", 0.7, "burst")], 3, [f"at {moment} kill a"]
        )
        idle = 1 - outcome.share("a", 2000, 2100) - outcome.share("b", 2000, 2100)
        worst = max(worst, 100 * idle)
    return _row("a killed holder: card time nobody had", "ms", worst, 10)


def _resized(program: Path) -> Row:
    worst = 0.0
    for before, after in ((0.3, 0.6), (0.9, 0.1), (0.1, 0.9)):
        outcome = simulate(program, [Tenant("a", before)], 4, [f"at 2000 milli a {after * 1000}"])
        worst = max(worst, outcome.worst_error("a", after, 1000, 2200))
    return _row("resized: worst error over 1 s from 200 ms after", "points", worst, 3)


def _wall_clock(directory: Path) -> Iterator[Row]:
    """Real processes, doorbells and futexes; a busy machine shows here. No limit is set on it."""
    load, card, arbiter = build_load(directory), Card(directory), Arbiter()
    for number, (one, other) in enumerate(((100, 900), (300, 700), (500, 500))):
        shares = [card.share(f"a{number}", one), card.share(f"b{number}", other)]
        for share in shares:
            arbiter.add(share)
        for kernel, us in (("step_us_50", 50), ("step_ms_5", 5_000)):
            done = run_together(load, card, shares, kernel, 3, 0, 0, "kernel")
            parts = [each["launches"] * us * 1e3 / each["done_ns"] for each in done]
            error = 100 * max(
                abs(part - milli / 1000) for part, milli in zip(parts, (one, other), strict=True)
            )
            note = f"had {parts[0]:.3f} and {parts[1]:.3f}, together {sum(parts):.3f}"
            name = (
                f"wall clock, {kernel}, {one / 10:.0f} % beside {other / 10:.0f} %: error over 3 s"
            )
            yield _row(name, "points", error, None, note)
    arbiter.close()
