"""Two controllers: how long nobody leads after the leader was killed, and after it was told to
end."""

import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench.rows import Row
from gpupool.kubernetes.client.leader_election import LeaseTimes
from tests.support.cluster.session import session_cluster
from tests.support.cluster_pool import ClusterPool
from tests.support.kube_faults.replicas import Replica, Replicas, doors_of

NAME = "kubernetes-leading"
TIMES = 3
WAIT_SECONDS = 60.0


def run(out: Path) -> list[Row]:
    """Seconds from the signal to the other's own word that it leads, `TIMES` times each."""
    with (
        tempfile.TemporaryDirectory(prefix="gpupool-leading-") as place,
        session_cluster(_said) as cluster,
        ClusterPool(cluster, Path(place)) as pool,
        doors_of(cluster) as doors,
    ):
        replicas = Replicas(pool, doors, Path(place))
        killed = [_takes(pool, replicas, signal.SIGKILL) for _ in range(TIMES)]
        ended = [_takes(pool, replicas, signal.SIGTERM) for _ in range(TIMES)]
    terms = LeaseTimes()
    command = f"python -m bench {NAME}"
    return [
        _row(
            "nobody leads after kill -9 of the leader",
            killed,
            terms.lease + 2 * terms.every,
            command,
        ),
        _row("nobody leads after the leader was told to end", ended, 2 * terms.every, command),
    ]


def _row(figure: str, samples: list[float], limit: float, command: str) -> Row:
    return Row(
        figure, "s", statistics.median(samples), command, limit=limit, samples=tuple(samples)
    )


def _takes(pool: ClusterPool, replicas: Replicas, number: signal.Signals) -> float:
    """How long it is from the signal until the other one leads."""
    one, other = replicas.make(), replicas.make()
    leader, second = pool.until(lambda: _ordered(one, other), "one leads", WAIT_SECONDS)
    pool.until(lambda: "leads" in second.page("readyz"), "the other stands by", WAIT_SECONDS)
    began = time.monotonic()
    leader.bury(number)
    pool.until(lambda: second.leads, "the other leads", WAIT_SECONDS)
    took = time.monotonic() - began
    second.bury(signal.SIGTERM)
    return took


def _ordered(one: Replica, other: Replica) -> tuple[Replica, Replica] | None:
    return (one, other) if one.leads else (other, one) if other.leads else None


def _said(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
