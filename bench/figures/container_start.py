"""A container's start and end by `gpupool run --image`, beside bare Podman's by the same account.

Both run `true` in the same image, taking turns. Ours has a fenced share of a simulated card, its
mounts, the check of the image, the job's cgroup and the record of the job. As root, since the pool
is root's and the account is made for the measurement.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
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
BARE = ("run", "--rm", "--network=host", IMAGE, "true")


#: Seconds after a command, in which the pool finishes its own work on the job.
SETTLE_SECONDS = 0.1
#: Counts the processor time of a process and its children (Linux, cgroup version 1).
METER = Path("/sys/fs/cgroup/cpuacct")


@dataclass
class Samples:
    """What one command took in each turn, in seconds.

    Attributes:
        wall: From its start to its end.
        processor: Of it and of all processes that worked for it; empty where nothing counts them.
    """

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)


def run(out: Path) -> list[Row]:
    missing = find_missing_part()
    if missing:
        raise SystemExit(f"{NAME}: {missing}")
    place = Path(tempfile.mkdtemp(prefix="gpt-"))
    place.chmod(0o755)
    (place / "home").mkdir()
    (place / "image").mkdir()
    try:
        with open_meter() as meter, make_account(place / "home") as podman:
            archive = build_archive(podman, place / "image")
            with AccountPool(place / "pool", podman) as pool:
                pool.type("image", "load", str(archive))
                ours, bare, plain = _measure(pool, podman, meter)
    finally:
        shutil.rmtree(place)
    return _make_rows(ours, bare, plain)


@contextmanager
def open_meter() -> Iterator[Path | None]:
    """Put this process and its children into a cgroup that counts their processor time."""
    if not METER.is_dir():
        yield None
        return
    group = METER / f"gpupool-bench-{os.getpid()}"
    group.mkdir()
    (group / "cgroup.procs").write_text(str(os.getpid()))
    try:
        yield group / "cpuacct.usage"
    finally:
        for process in (group / "cgroup.procs").read_text().split():
            (METER / "cgroup.procs").write_text(process)
        group.rmdir()


def _make_rows(ours: Samples, bare: Samples, plain: Samples) -> list[Row]:
    apart = [left - right for left, right in zip(ours.wall, bare.wall, strict=True)]
    rows = [
        median_row(
            "a container from start to end",
            COMMAND,
            ours.wall,
            peer_samples=bare.wall,
            peer_command=f"podman {' '.join(BARE)}",
        ),
        Row(
            "more than bare Podman, median of turns",
            "s",
            round(statistics.median(apart), 3),
            COMMAND,
            limit=MOST_SECONDS,
            samples=tuple(apart),
        ),
        median_row("the same job without a container", COMMAND, plain.wall),
    ]
    if ours.processor:
        rows += [
            median_row(
                "processor time of the container, on all processes",
                COMMAND,
                ours.processor,
                peer_samples=bare.processor,
                peer_command=f"podman {' '.join(BARE)}",
            ),
            median_row("processor time of that job", COMMAND, plain.processor),
        ]
    return rows


def _measure(
    pool: AccountPool, podman: AccountPodman, meter: Path | None
) -> tuple[Samples, Samples, Samples]:
    """Measure turns: ours, bare Podman's, and a job of ours without a container."""
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
        # The same runtime: by itself Podman takes a crun that does not run on this host.
        (["podman", f"--runtime={podman.installation.oci_runtime}", *BARE], identity),
        (pool.make_words(*plain), {"env": {**pool.environ, **environ}, "cwd": "/"}),
    )
    found = (Samples(), Samples(), Samples())
    for turn in range(TURNS + 1):
        for samples, (words, settings) in zip(found, commands, strict=True):
            before = _read_meter(meter)
            began = time.monotonic()
            subprocess.run(words, check=True, capture_output=True, **settings)
            seconds = time.monotonic() - began
            time.sleep(SETTLE_SECONDS)
            # The first turn reads programs and image from disk.
            if turn:
                samples.wall.append(seconds)
                if meter is not None:
                    samples.processor.append(_read_meter(meter) - before)
    subprocess.run(["podman", "system", "migrate"], check=True, capture_output=True, **identity)
    return found


def _read_meter(meter: Path | None) -> float:
    return 0.0 if meter is None else int(meter.read_text()) / 1e9
