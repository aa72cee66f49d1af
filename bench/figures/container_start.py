"""A container's start and end by `gpupool run --image`, beside bare Podman's by the same account.

Both run `true` in the same image, taking turns. Ours has a fenced share of a simulated card, its
mounts, the check of the image, the job's cgroup and the record of the job. As root, since the pool
is root's and the account is made for the measurement.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.rows import Row, median_row
from gpupool.mechanisms.containers.images import AccountPodman
from tests.hosts.container_account import (
    IMAGE,
    AccountPool,
    build_archive,
    find_missing_part,
    make_account,
)

NAME = "container-start"
COMMAND = "python -m bench container-start"
TURNS = 15
#: Seconds that a start may take longer than bare Podman's.
MOST_SECONDS = 0.1
OURS = ("run", "--gpu", "0.3", "--memory", "2GiB", "--image", IMAGE, "--", "true")
BARE = ("podman", "run", "--rm", "--network=host", IMAGE, "true")


def run(out: Path) -> list[Row]:
    missing = find_missing_part()
    if missing:
        raise SystemExit(f"{NAME}: {missing}")
    place = Path(tempfile.mkdtemp(prefix="gpt-"))
    place.chmod(0o755)
    (place / "home").mkdir()
    (place / "image").mkdir()
    try:
        with make_account(place / "home") as podman:
            archive = build_archive(podman, place / "image")
            with AccountPool(place / "pool", podman) as pool:
                pool.type("image", "load", str(archive))
                ours, bare, plain = _measure(pool, podman)
    finally:
        shutil.rmtree(place)
    return _make_rows(ours, bare, plain)


def _make_rows(ours: Sequence[float], bare: Sequence[float], plain: Sequence[float]) -> list[Row]:
    apart = [left - right for left, right in zip(ours, bare, strict=True)]
    return [
        median_row(
            "a container from start to end",
            COMMAND,
            ours,
            peer_samples=bare,
            peer_command=" ".join(BARE),
        ),
        Row(
            "more than bare Podman, median of turns",
            "s",
            round(statistics.median(apart), 3),
            COMMAND,
            limit=MOST_SECONDS,
            samples=tuple(apart),
        ),
        median_row("the same job without a container", COMMAND, plain),
    ]


def _measure(
    pool: AccountPool, podman: AccountPodman
) -> tuple[list[float], list[float], list[float]]:
    """Seconds of each turn: ours, bare Podman's, and a job of ours without a container."""
    plain = ("run", "--gpu", "0.3", "--memory", "2GiB", "--", "true")
    environ = {"HOME": podman.account.home, "PATH": pool.environ["PATH"]}
    identity: dict[str, Any] = {
        "user": podman.account.uid,
        "group": podman.account.gid,
        "extra_groups": [],
        "env": environ,
        "cwd": "/",
    }
    commands: tuple[tuple[list[str], dict[str, Any]], ...] = (
        (pool.make_words(*OURS), {"env": {**pool.environ, **environ}, "cwd": "/"}),
        (list(BARE), identity),
        (pool.make_words(*plain), {"env": {**pool.environ, **environ}, "cwd": "/"}),
    )
    found: tuple[list[float], list[float], list[float]] = ([], [], [])
    for turn in range(TURNS + 1):
        for seconds, (words, settings) in zip(found, commands, strict=True):
            began = time.monotonic()
            subprocess.run(words, check=True, capture_output=True, **settings)
            # The first turn reads programs and image from disk.
            if turn:
                seconds.append(time.monotonic() - began)
    subprocess.run(["podman", "system", "migrate"], check=True, capture_output=True, **identity)
    return found
