"""The gate in real processes: programs on a simulated card, their shares' time divided by a real
arbiter.

What is asserted here on the wall clock is loose, since the machine may be busy: the figures are
asserted on virtual time (test_fence_compute.py) and measured by `python -m bench fence-compute`.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import gpupool_native
from gpupool.mechanisms.arbiter import ArbiterProcess as Keeper
from tests.support.fenced_card import (
    Arbiter,
    Card,
    Share,
    build_load,
    finish,
    run_together,
    running,
)

SMALL = "step_us_50"
ALONE = 12
"""The column of an arbiter's status with the time in which no other share wanted the card."""
TRIES = 3
"""Of what holds where both shares always ask: a busy machine may keep one of their programs from
its processors."""


@pytest.fixture
def arbiter() -> Iterator[Arbiter]:
    running_one = Arbiter()
    yield running_one
    if running_one.process.poll() is None:
        assert running_one.close() == 0


def run_one(load: Path, card: Card, share: Share | None, *arguments: object) -> Any:
    with running(load, share, card, *arguments) as process:
        return finish(process)


def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


def counted(share: Share) -> Any:
    """What the whole allocation was charged, in nanoseconds."""
    return share.usage().charged_ns[share.limits.devices[0].uuid]


@pytest.mark.parametrize(
    ("kernel", "way"), [(SMALL, "kernel"), ("step_ms_5", "kernel"), (SMALL, "graph")]
)
def test_a_share_gets_its_part_of_the_card(
    load: Path, card: Card, arbiter: Arbiter, kernel: str, way: str
) -> None:
    share = card.share("a", 300)
    arbiter.add(share)
    done = run_one(load, card, share, kernel, 1.2, 0, 0, way)
    size = 10 * 50_000 if way == "graph" else 5_000_000 if kernel == "step_ms_5" else 50_000
    part = done["launches"] * size / done["done_ns"]
    assert 0.2 <= part <= 0.36
    assert counted(share) == pytest.approx(done["launches"] * size, rel=0.1)


@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize("gpu_milli", [500, 1000])
def test_processes_of_one_share_that_run_at_once_are_counted_once(
    load: Path, card: Card, arbiter: Arbiter, gpu_milli: int, processes: int
) -> None:
    share = card.share("a", gpu_milli)
    arbiter.add(share)
    done = run_together(load, card, [share] * processes, SMALL, 1, 0, 0, "kernel")
    assert counted(share) == pytest.approx(sum(each["launches"] for each in done) * 50_000, rel=0.1)


def test_without_a_limit_nothing_waits_and_all_is_counted(load: Path, card: Card) -> None:
    share = card.share("a", 1000)
    run_one(load, card, share, SMALL, 0, 4000, 0, "kernel")
    ((used,),) = [list(each.devices.values()) for each in share.usage().processes]
    assert used.wait_ns == 0
    assert counted(share) == pytest.approx(4000 * 50_000, rel=0.1)


def test_two_shares_of_one_card_stand_in_their_ratio(
    load: Path, card: Card, arbiter: Arbiter
) -> None:
    shares = [card.share("a", 250), card.share("b", 750)]
    for share in shares:
        arbiter.add(share)
    ratios: list[float] = []
    while len(ratios) < TRIES and not (ratios and 2.2 <= ratios[-1] <= 4):
        few, many = run_together(load, card, shares, SMALL, 1.5, 0, 0, "kernel")
        ratios.append(many["launches"] / few["launches"])
    assert 2.2 <= ratios[-1] <= 4, ratios


def test_captured_work_is_charged_when_its_graph_is_launched_and_not_before(
    load: Path, card: Card
) -> None:
    share = card.share("a", 1000)
    run_one(load, card, share, SMALL, 0, 1, 0, "graph")
    assert counted(share) == pytest.approx(500_000, rel=0.2)


@pytest.mark.parametrize("gpu_milli", [1000, 500])
def test_threads_streams_and_contexts_that_come_and_go_leave_nothing_in_flight(
    tmp_path: Path, card: Card, arbiter: Arbiter, gpu_milli: int
) -> None:
    share = card.share("a", gpu_milli)
    arbiter.add(share)
    storm = build_load(tmp_path, Path(__file__).parent / "fence_gate_storm.c")
    with running(storm, share, card, 3, "stay") as process:
        assert process.stdout
        launched = int(process.stdout.readline())
        ((used,),) = [list(each.devices.values()) for each in share.usage().processes]
        assert used.launches == launched
        assert used.inflight_ns == 0
        assert used.waiters == 0
        assert used.gpu_ns == counted(share)
        assert used.gpu_ns >= launched * 5_000 * 0.9


def test_what_waits_for_its_own_share_is_told_from_what_waits_for_others(
    load: Path, card: Card, arbiter: Arbiter
) -> None:
    share = card.share("a", 200)
    arbiter.add(share)
    run_one(load, card, share, SMALL, 0.5, 0, 0, "kernel")
    arbiter.await_event("a", "cleared")
    (departed,) = share.usage().departed.values()
    assert departed.wait_ns >= departed.throttled_ns >= departed.wait_ns / 2


def test_copies_are_charged(load: Path, card: Card) -> None:
    share = card.share("a", 1000)
    run_one(load, card, share, SMALL, 0, 50, 0, "copy")
    assert counted(share) > 0


def test_who_is_killed_frees_the_card_and_its_slot_at_once(
    load: Path, card: Card, arbiter: Arbiter
) -> None:
    first, second = card.share("a", 500, "burst"), card.share("b", 500, "burst")
    arbiter.add(first)
    arbiter.add(second)
    with running(load, first, card, SMALL, 30, 0, 0, "kernel") as victim:
        assert arbiter.await_event("a", "process")[3] == str(victim.pid)
        with running(load, second, card, SMALL, 0.8, 0, 0, "kernel") as other:
            arbiter.await_event("b", "process")
            killed_at = time.monotonic()
            victim.send_signal(signal.SIGKILL)
            assert arbiter.await_event("a", "cleared")[3] == str(victim.pid)
            assert time.monotonic() - killed_at < 0.5  # 100 ms on an idle machine
            assert first.usage().processes == ()
            finish(other)


def test_a_process_that_ended_by_itself_leaves_nothing(
    load: Path, card: Card, arbiter: Arbiter
) -> None:
    share = card.share("a", 500)
    arbiter.add(share)
    run_one(load, card, share, SMALL, 0, 200, 0, "kernel")
    until(lambda: not share.usage().processes)


def test_without_an_arbiter_the_static_part_holds(load: Path, card: Card) -> None:
    share = card.share("a", 200)
    done = run_one(load, card, share, SMALL, 1.5, 0, 0, "kernel")
    # How much of it a program gets that is kept from asking says the machine, not the fence.
    assert 0 < done["launches"] * 50_000 / done["done_ns"] <= 0.25


def test_an_arbiter_that_is_killed_is_replaced_in_mid_run(load: Path, card: Card) -> None:
    share = card.share("a", 500, "burst")
    killed = Arbiter()
    killed.add(share)
    with running(load, share, card, SMALL, 2.5, 0, 0, "kernel") as process:
        killed.await_event("a", "process")
        time.sleep(0.3)
        killed.kill()
        time.sleep(0.6)  # long enough to be missed
        before = counted(share)
        successor = Arbiter()
        successor.add(share)
        until(
            lambda: counted(share) > before + 700_000_000
        )  # far more than its static part in that time
        finish(process)
        assert successor.close() == 0


def test_a_live_resize_is_seen_by_who_runs(load: Path, card: Card, arbiter: Arbiter) -> None:
    share = card.share("a", 800)
    arbiter.add(share)
    with running(load, share, card, SMALL, 2.5, 0, 0, "kernel") as process:
        arbiter.await_event("a", "process")
        time.sleep(0.3)
        share.resize(100)
        arbiter.ask("changed", "a")
        time.sleep(0.3)
        begin, at = counted(share), time.monotonic()
        time.sleep(0.8)
        part = (counted(share) - begin) / 1e9 / (time.monotonic() - at)
        finish(process)
    assert 0.05 <= part <= 0.15


def test_a_stopped_process_does_not_hold_the_card(load: Path, card: Card, arbiter: Arbiter) -> None:
    first, second = card.share("a", 500, "burst"), card.share("b", 500, "burst")
    arbiter.add(first)
    arbiter.add(second)
    with running(load, first, card, SMALL, 0.3, 0, 0, "stop") as stopped:
        until(
            lambda: (
                Path(f"/proc/{stopped.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
            )
        )
        done = run_one(load, card, second, SMALL, 1, 0, 0, "kernel")
        (status,) = [line for line in arbiter.ask("status") if line[:2] == ["share", "b"]]
        os.kill(stopped.pid, signal.SIGCONT)
        finish(stopped)
    # Beside one that runs it is alone for a hundredth of the time.
    assert int(status[ALONE]) >= 0.7 * done["done_ns"]


def test_the_agent_reads_what_each_share_owns(card: Card) -> None:
    keeper, share = Keeper(Path(gpupool_native.arbiter_path()), lambda: 0.0), card.share("a", 300)
    assert keeper.query_status() is None
    keeper.add_share("a", share.base / "share", share.base / "usage")
    until(lambda: bool((keeper.query_status() or (0, ()))[1]))
    said = keeper.query_status()
    assert said is not None
    assert said[0] == keeper.find_pid()
    ((name, device, owns),) = [(each.allocation, each.device, each.owns_ns) for each in said[1]]
    assert (name, device) == ("a", 0)
    assert 0 <= owns <= 40_000_000
    keeper.close()
    keeper.join(10)


def test_the_agent_is_told_of_each_process_that_takes_a_slot(load: Path, card: Card) -> None:
    entered: list[tuple[str, int]] = []
    program = Path(gpupool_native.arbiter_path())
    keeper, share = (
        Keeper(program, lambda: 0.0, lambda *said: entered.append(said)),
        card.share("a", 300),
    )
    keeper.add_share("a", share.base / "share", share.base / "usage")
    until(lambda: keeper.query_status() is not None)
    with running(load, share, card, SMALL, 0.3, 0, 0, "kernel") as process:
        until(lambda: bool(entered))
        finish(process)
    assert entered == [("a", process.pid)]
    keeper.close()
    keeper.join(10)
