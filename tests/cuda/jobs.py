"""A pool of one simulated card, and programs as jobs of it: what test files about shares have in
common."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.pool_fixture import RealPool

GIB = 1 << 30
SHARE = ("--gpu", "0.3", "--memory", "8GiB")
CONTEXT = 1 * GIB  # more than any context of these cards costs


def printed(pool: RealPool, *command: str | Path, claim: tuple[str, ...] = SHARE) -> str:
    return pool.do("run", *claim, "--", *map(str, command))


def document(pool: RealPool, *command: str | Path, claim: tuple[str, ...] = SHARE) -> Any:
    documents = [json.loads(line) for line in printed(pool, *command, claim=claim).splitlines()]
    return documents[0] if len(documents) == 1 else documents


@contextmanager
def neighbour(pool: RealPool, features: Path, number: int, *claim: str) -> Iterator[int]:
    """Another job on the card, which holds that many bytes; its pid."""
    job = pool.start("run", *claim, "--", str(features), "hold", str(number), stdin=subprocess.PIPE)
    try:
        assert job.stdout is not None
        line = job.stdout.readline()
        assert line, job.communicate()[1]
        yield int(json.loads(line)["pid"])
    finally:
        job.communicate(timeout=60)
