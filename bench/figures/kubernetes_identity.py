"""64 pods at once on a real kubelet, round after round: who saw another's card, also while parts
are killed."""

import datetime
import os
import platform
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.rows import Row
from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.resources import names
from tests.support.cluster.api import Object
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.node import NAME as NODE
from tests.support.cluster.session import session_cluster
from tests.support.cluster_pool import ClusterPool, NodeParts
from tests.support.identity_rounds import Disturbing, Seen, round_of_jobs, round_of_pods

NAME = "kubernetes-identity"
ROUNDS, KILLED_ROUNDS = 20, 10
SPACE = "identity"
PODS = f"/api/v1/namespaces/{SPACE}/pods"


def run(out: Path) -> list[Row]:
    """`BENCH_ROUNDS`, `BENCH_KILLED_ROUNDS`, `BENCH_SEED` choose how many; the record goes to
    identity.md in `out`."""
    rounds = int(os.environ.get("BENCH_ROUNDS") or ROUNDS)
    killed = int(os.environ.get("BENCH_KILLED_ROUNDS") or KILLED_ROUNDS)
    seed = int(os.environ.get("BENCH_SEED") or random.SystemRandom().randrange(1 << 31))
    command = f"BENCH_ROUNDS={rounds} BENCH_KILLED_ROUNDS={killed} BENCH_SEED={seed} python -m bench {NAME}"
    quiet, disturbed, started = Seen(0), Seen(0), time.monotonic()

    def note(seen: Seen, more: Seen) -> None:
        """A round is over: the record is whole whenever the run ends."""
        seen.add(more)
        (out / "identity.md").write_text(
            record(quiet, disturbed, command, time.monotonic() - started)
        )
        print(f"{seen.rounds} rounds: {seen}", flush=True)

    with _pool() as (cluster, pool, parts):
        for turn in range(rounds):
            note(quiet, round_of_pods(pool, PODS, turn))
        disturbing = Disturbing(cluster, parts, seed)
        for turn in range(killed):
            note(disturbed, round_of_jobs(pool, PODS, turn, disturbing))
    kills = sum(disturbed.killed.values())
    return [
        Row(
            f"{NAME}: wrong cards in {rounds} rounds of 64 pods",
            "",
            len(quiet.wrong),
            command,
            limit=0,
        ),
        Row(
            f"{NAME}: wrong cards in {killed} rounds, {kills} kills",
            "",
            len(disturbed.wrong),
            command,
            limit=0,
        ),
    ]


@contextmanager
def _pool() -> Iterator[tuple[Cluster, ClusterPool, NodeParts]]:
    """A cluster with one real node that is adopted; all of it ends with the block."""
    with (
        tempfile.TemporaryDirectory(prefix="gpupool-identity-") as place,
        session_cluster(print) as cluster,
    ):
        node = cluster.add_real_node(print)
        with ClusterPool(cluster, Path(place)) as pool:
            pool.start()
            parts = NodeParts(pool, node, Path(place), "4xL40S")
            pool.admin.create("/api/v1/namespaces", {"metadata": {"name": SPACE}})
            pool.admin.until(f"/api/v1/namespaces/{SPACE}/serviceaccounts/default", bool)
            try:
                parts.start_agent()
                parts.start_plugin()
                pool.until(lambda: pool.admin.find(f"{ledger.NODES}/{NODE}"), "the agent's GpuNode")
                pool.admin.merge(f"{ledger.NODES}/{NODE}", {"spec": {"mode": "slot"}})
                pool.admin.until(f"/api/v1/nodes/{NODE}", _hands_out)
                yield cluster, pool, parts
            finally:
                parts.stop()


def _hands_out(node: Object) -> bool:
    has = node["status"]["allocatable"]
    return all(has.get(name, "0") != "0" for name in (names.SLOT, names.GPU_MILLI))


def record(quiet: Seen, disturbed: Seen, command: str, seconds: float) -> str:
    """What was done and found, with what is needed to do it again."""
    when = datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes")
    lines = [
        f"# {quiet.rounds + disturbed.rounds} rounds of 64 pods at once on one kubelet",
        "",
        f"{when}, {platform.platform()}, {os.cpu_count()} processors, {seconds:.0f} s:",
        "",
        f"    {command}",
        "",
        "| | rounds | pods | containers that said what they saw | of killed pods, silent | wrong cards |",
        "|---|---|---|---|---|---|",
        _line("nothing killed", quiet),
        _line("parts of the node killed at random", disturbed),
        "",
        "| killed with -9 | times |",
        "|---|---|",
        *(f"| {what} | {count} |" for what, count in sorted(disturbed.killed.items())),
        "",
        *(f"* {one}" for one in (*quiet.wrong, *disturbed.wrong)),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _line(what: str, seen: Seen) -> str:
    return f"| {what} | {seen.rounds} | {seen.pods} | {seen.containers} | {seen.unheard} | {len(seen.wrong)} |"
