"""One plain account does its worst for 60 s: others' `ps` and submissions, failures, pinned cards,
the log; as root."""

import json
import random
import statistics
import time
from pathlib import Path

from bench import plain_user
from bench.rows import Row
from tests.e2e.pool_fixture import RealPool
from tests.support.accounts import open_directory

NAME = "plain-user"
SECONDS = 60.0
MIB = 1 << 20
COMMAND = "python -m bench plain-user"


def run(out: Path) -> list[Row]:
    with open_directory() as place, RealPool(place / "pool", "2x4xL40S") as pool:
        accepted = _million(pool)
        found = plain_user.worst(pool, SECONDS)
    (out / "plain-user-attacks.json").write_text(json.dumps(found.__dict__, indent=1) + "\n")
    statuses = {name: dict(counts) for name, counts in found.attacks.items()}
    slow_ps, slow_submit = max(found.ps_seconds), max(found.submit_seconds)
    failed = sum(
        n for counts in found.attacks.values() for status, n in counts.items() if status >= 500
    )
    samples = tuple(took for took, _ in found.ps_seconds)
    middle = statistics.median(took for took, _ in found.submit_seconds)
    return [
        Row("array of 1,000,000 accepted", "s", accepted, COMMAND, limit=0.1),
        Row(
            "others' slowest ps",
            "s",
            slow_ps[0],
            COMMAND,
            limit=1.0,
            samples=samples,
            note=f"during {slow_ps[1]}",
        ),
        Row(
            "others' slowest submission",
            "s",
            slow_submit[0],
            COMMAND,
            limit=2.0,
            note=f"during {slow_submit[1]}",
        ),
        Row("others' median submission", "s", middle, COMMAND),
        Row(
            "others' 5xx and lost answers",
            "",
            found.failures,
            COMMAND,
            limit=0,
            note=str(dict(found.statuses)),
        ),
        Row("the account's own 5xx", "", failed, COMMAND, note=str(statuses)),
        Row("pinned afterwards", "milli", found.pinned_milli, COMMAND, limit=0),
        Row("log", "MiB", found.log_bytes / MIB, COMMAND, limit=5.0),
    ]


def _million(pool: RealPool) -> float:
    """Seconds from sending an array of 1,000,000 to its answer; the third, as the first two warm
    the server up."""
    me, took = plain_user.Account(str(pool.state_dir / "gpupool.sock"), random.Random(1)), 0.0
    for number in range(3):
        began = time.monotonic()
        status, _ = me.ask("POST", "jobs", plain_user.job(array=1_000_000, name=f"warm-{number}"))
        took = time.monotonic() - began
        assert status == 201, status
    pool.do("stop", "--all", "--yes", "--grace", "0s")
    return took
