"""Ways to take GPU time past the fence: each is found and its job ended; honest programs live to
their end."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adversary.conftest import open_to_other_users
from tests.e2e.pool_fixture import RealPool
from tests.support.compute import NATIVE, REPOSITORY
from tests.support.fenced_card import build_load

pytestmark = [
    pytest.mark.adversary,
    pytest.mark.root,
    pytest.mark.skipif(
        os.geteuid() != 0, reason="a pool of root's own: in a user's the fence is advice"
    ),
]

SHARE = ("--gpu", "0.3", "--memory", "25GiB")
"""No two of these fit on one card, so that each has what its neighbours leave: all."""
LIVES_SECONDS = "40"
"""An evasion that is not found lives so long and ends well."""
HONEST_SECONDS = "5"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = open_to_other_users(tmp_path_factory.mktemp("programs"))
    options = ["-std=gnu11", "-O1", "-Wall", f"-I{NATIVE / 'include'}"]
    source = Path(__file__).parent / "time_evasions.c"
    subprocess.run(
        ["cc", *options, "-o", folder / "evade", source, "-ldl", "-lpthread"], check=True
    )
    build_load(folder, REPOSITORY / "tests/unit/native/fence_ways.c")
    return folder


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPool]:
    """A card for each of the jobs of one test."""
    with RealPool(
        open_to_other_users(tmp_path_factory.mktemp("adversary")) / "pool", f"{CARDS}xL40S"
    ) as running:
        yield running


def found(pool: RealPool, name: str) -> set[str]:
    """The kinds of findings about a job."""
    job = pool.job(name)["id"]
    events = [
        json.loads(line) for line in pool.do("events", "--last", "500", "-o", "json").splitlines()
    ]
    return {
        event["kind"]
        for event in events
        if event["subject"] == job and event["kind"].startswith("fence.")
    }


EVASIONS = {
    "pointers": "fence.time",
    "one-first": "fence.time",
    "pinned": "fence.time",
    "half": "fence.time",
    "brief": "fence.time",
    "limits": "fence.mount",
    "renamed": "fence.mount",
    "grants": "fence.mount",
    "own-grants": "fence.time",
    "elsewhere": "fence.time",
}
MOUNTS = ("limits", "renamed", "grants")
OWN_PIDS = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--")
"""As in a container: there a process has another pid than on the host."""
NAMESPACES = {**dict.fromkeys(MOUNTS, ("unshare", "-m", "--")), "elsewhere": OWN_PIDS}
"""What runs in namespaces of its own, and by which command."""


def test_every_evasion_is_found_and_its_job_ended(pool: RealPool, programs: Path) -> None:
    for way in EVASIONS:
        before = NAMESPACES.get(way, ())
        pool.do(
            "submit",
            "--name",
            way,
            *SHARE,
            "--",
            *before,
            str(programs / "evade"),
            way,
            LIVES_SECONDS,
        )
    states = {way: pool.until_state(way, "done", "failed", "stopped")["state"] for way in EVASIONS}
    assert states == dict.fromkeys(EVASIONS, "failed"), [pool.do("logs", way) for way in EVASIONS]
    for way, kind in EVASIONS.items():
        assert kind in found(pool, way), (way, found(pool, way))


BESIDE_OTHERS = {
    "pointers": "fence.time",
    "one-first": "fence.time",
    "limits": "fence.mount",
    "own-grants": "fence.time",
    "pinned": None,
    "half": None,
}
"""What is found where another share wants the card. None: a lease is paid by the wall clock there
and not by the page that was forged, so it lives to its end unless it had more than it paid all the
same.
"""
CARDS = 10
NEIGHBOUR = ("--gpu", "0.3", "--sharing", "burst", "--memory", "25GiB")
SMALL_SHARE = ("--gpu", "0.3", "--memory", "15GiB")
"""Beside a neighbour on every card there is room for one of these."""
CONTESTED_SECONDS = "15"


@pytest.fixture
def contested(pool: RealPool, programs: Path) -> Iterator[RealPool]:
    """On each card a neighbour that wants all of it all the time."""
    names = [f"neighbour-{number}" for number in range(CARDS)]
    for name in names:
        pool.do(
            "submit",
            "--name",
            name,
            *NEIGHBOUR,
            "--",
            str(programs / "fence_ways"),
            "vary",
            "600",
            "0",
        )
        pool.until_state(name, "running")
    yield pool
    for name in names:
        pool.do("stop", name, "--grace", "0s")
        pool.until_state(name, "stopped")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sharing", ["burst", "best-effort"])
def test_contested_time_taken_past_the_fence_is_found(
    contested: RealPool, programs: Path, sharing: str
) -> None:
    pool, share = contested, (*SMALL_SHARE, "--sharing", sharing)
    for way in BESIDE_OTHERS:
        before = NAMESPACES.get(way, ())
        words = (*before, str(programs / "evade"), way, CONTESTED_SECONDS)
        pool.do("submit", "--name", f"{sharing}-{way}", *share, "--", *words)
    honest = f"{sharing}-honest"
    pool.do(
        "submit",
        "--name",
        honest,
        *share,
        "--",
        str(programs / "fence_ways"),
        "vary",
        HONEST_SECONDS,
        "8",
    )
    for way, kind in BESIDE_OTHERS.items():
        name = f"{sharing}-{way}"
        state, kinds = (
            pool.until_state(name, "done", "failed", "stopped")["state"],
            found(pool, name),
        )
        expected = {kind} if kind else kinds & {"fence.time"}
        assert (state, kinds) == ("failed" if expected else "done", expected), pool.do("logs", name)
    assert pool.until_state(honest, "done", "failed", "stopped")["state"] == "done"
    assert found(pool, honest) == set()


BRIEF = 20
"""Processes one after another, each shorter than the time between two looks at the card."""
HONEST = {
    "even": ("vary", "0"),
    "uneven": ("vary", "8"),
    "streams": ("streams", "3000"),
    "contexts": ("contexts", "40"),
    "destroyed": ("destroyed", "2"),
    "ended": ("ended", "8"),
    "own": ("own", "8"),
    "elsewhere": ("vary", "8"),
}


def test_honest_programs_live_to_their_end_and_nothing_is_found(
    pool: RealPool, programs: Path
) -> None:
    for name, (way, count) in HONEST.items():
        words = [
            *NAMESPACES.get(name, ()),
            str(programs / "fence_ways"),
            way,
            HONEST_SECONDS,
            count,
        ]
        pool.do("submit", "--name", f"honest-{name}", *SHARE, "--", *words)
    one_after_another = (
        f"for i in $(seq {BRIEF}); do {programs / 'fence_ways'} vary 0.2 8 || exit 3; done"
    )
    pool.do("submit", "--name", "honest-brief", *SHARE, "--", "sh", "-c", one_after_another)
    for name in (*HONEST, "brief"):
        honest = f"honest-{name}"
        assert pool.until_state(honest, "done", "failed", "stopped")["state"] == "done", pool.do(
            "show", honest
        )
        assert found(pool, honest) == set()
