"""A thousand kill -9 of controller, webhook, scheduler, API server and etcd at every row of the
failure table."""

import os
import random
import sys
import tempfile
import time
from pathlib import Path

from bench.campaigns import circumstances
from bench.rows import Row
from tests.support.cluster.session import session_cluster
from tests.support.kube_faults.campaign import Broken, Counts, run_campaign
from tests.support.kube_faults.rows import ROWS

NAME = "kubernetes-faults"
ROUNDS = 1_000
PER_RIG = 100
"""Rounds on one control plane before the next one is started."""


def run(out: Path) -> list[Row]:
    """`BENCH_ROUNDS`, `BENCH_SEED` and `BENCH_MINUTES` (no new rounds after them) choose; the
    record goes to `out`."""
    wanted, seed, minutes = _wanted()
    total, broken = Counts(), []
    began = time.monotonic()
    for number in range(-(-wanted // PER_RIG)):
        rounds = min(PER_RIG, wanted - number * PER_RIG)
        until = began + 60 * minutes
        try:
            total.add(_one_rig(seed + number, rounds, until))
        except Broken as error:
            total.add(error.counts)
            broken.append(f"rig {number} (seed {seed + number}): {error}")
            (out / "kubernetes-faults-broken.txt").write_text("\n\n".join(broken))
        (out / "kubernetes-faults.md").write_text(
            record(total, seed, broken, time.monotonic() - began)
        )
    command = f"BENCH_ROUNDS={wanted} BENCH_SEED={seed} python -m bench {NAME}"
    done = sum(total.rounds.values())
    return [
        Row(
            "faults on a cluster: rounds after which everything was checked",
            "",
            done,
            command,
            note=str(total),
        ),
        Row("faults on a cluster: truths that did not hold", "", len(broken), command, limit=0),
    ]


def _wanted() -> tuple[int, int, float]:
    seed = os.environ.get("BENCH_SEED")
    chosen = int(seed) if seed else random.SystemRandom().randrange(1 << 31)
    return (
        int(os.environ.get("BENCH_ROUNDS") or ROUNDS),
        chosen,
        float(os.environ.get("BENCH_MINUTES") or "inf"),
    )


def _one_rig(seed: int, rounds: int, until: float) -> Counts:
    with (
        tempfile.TemporaryDirectory(prefix="gpupool-kubernetes-faults-") as place,
        session_cluster(_said) as cluster,
    ):
        counts = run_campaign(cluster, Path(place), seed, rounds, ROWS, until, _said)
    print(f"seed {seed}: {counts}", flush=True)
    return counts


def _said(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def record(counts: Counts, seed: int, broken: list[str], seconds: float) -> str:
    """What was done and found, with what is needed to do it again."""
    lines = [
        f"# {sum(counts.rounds.values())} rounds of faults on a cluster",
        "",
        circumstances(seed, seconds, f"a new control plane every {PER_RIG} rounds"),
        "",
        "| killed with -9 | rounds |",
        "|---|---|",
        *(f"| {row} | {counts.rounds[row]} |" for row in ROWS),
        "",
        "| pods made | count |",
        "|---|---|",
        *(f"| {kind} | {count} |" for kind, count in sorted(counts.pods.items())),
        "",
        f"{counts}.",
        "",
        f"Truths that did not hold: {len(broken)}.",
    ]
    return "\n".join(lines) + "\n"
