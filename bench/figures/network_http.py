"""A load balancer of HTTP on the real OVN and HAProxy: 10,000 requests beside the job alone, the same
across changes, a drain under load, and a job that takes no more connections. Then on a pair of
machines: HAProxy killed, a machine killed, and a machine drained.

As root, with OVN's packages, HAProxy, nftables and curl. `--count` says how many rounds on the pair.
"""

import os
import shutil
import tempfile
import time
from pathlib import Path

from bench.http_pair_rounds import PAIR_ROUNDS, measure_pair
from bench.rows import Row
from gpupool.agent.network.balancing.proxies import PROGRAM
from gpupool.agent.network.daemons import find_missing_programs
from tests.e2e.pool_fixture import RealPool
from tests.hosts.http_jobs import (
    Client,
    address,
    count_requests,
    open_client,
    serve,
    submit,
    until_members,
)

NAME = "network-http"
COMMAND = "python -m bench network-http"
REQUESTS = 10_000
DRAINS = 5
#: Bounds how long a machine may take for the requests.
LOAD_SECONDS = 600.0
JOBS = tuple(f"work-{number}.work" for number in range(3))
#: Seconds from the last connection that a job takes until it gets no more: two probes a second
#: apart, and the agent's look.
DOWN_SECONDS = 4.0


def run(out: Path) -> list[Row]:
    missing = set(find_missing_programs().values())
    missing |= {name for name in (PROGRAM, "curl") if shutil.which(name) is None}
    if missing:
        raise SystemExit(f"{NAME}: needs the packages {', '.join(sorted(missing))}")
    place = Path(tempfile.mkdtemp(prefix="gph-"))
    place.chmod(0o755)
    try:
        with RealPool(place / "pool", "8xL40S") as pool:
            pool.do("network", "enable")
            pool.do("network", "create", "web", "--cidr", "10.0.0.0/24")
            submit(pool, "client", "sleep", "3600")
            create = ("network", "lb-create", "web", "api", "--http", "--backend", "work")
            pool.do(*create, "--target-port", "80")
            serve(pool, "work", port=80, array=len(JOBS))
            until_members(pool, "api", dict.fromkeys(JOBS, "up"))
            client = open_client(pool, "client")
            rows = [
                *_measure_requests(pool, client),
                _measure_changes(pool, client),
                _measure_drains(pool, client),
                *_measure_down(pool, client),
            ]
    finally:
        shutil.rmtree(place)
    return rows + measure_pair(int(os.environ.get("BENCH_KILLS", PAIR_ROUNDS)))


def _measure_requests(pool: RealPool, client: Client) -> list[Row]:
    """Send the same requests to the load balancer and to a job, each on a connection of its own."""
    began = time.monotonic()
    through = client.begin_load(address(pool, "api"), most=REQUESTS)
    through.finish(LOAD_SECONDS)
    ours = REQUESTS / (time.monotonic() - began)
    began = time.monotonic()
    direct = client.begin_load(str(pool.job("work.0")["address"]), most=REQUESTS)
    direct.finish(LOAD_SECONDS)
    peer = REQUESTS / (time.monotonic() - began)
    failed = len(through.failures)
    answered = sum(through.names.values())
    wanted = answered + failed

    def count() -> int:
        return sum(count_requests(pool, "api", job) for job in JOBS)

    pool.until(lambda: count() >= answered, "the counts of the last requests")
    note = f"{wanted} sent, {answered} answered, {count()} counted by the load balancer"
    return [
        Row(
            "requests through a load balancer of HTTP",
            "requests/s",
            ours,
            COMMAND,
            peer=peer,
            peer_command="the same job asked directly; its Python server is the limit of both",
            note=note,
        ),
        Row(f"failed of {wanted} requests", "requests", failed, COMMAND, limit=0),
        Row("requests that were not counted", "requests", abs(wanted - count()), COMMAND, limit=0),
    ]


def _measure_changes(pool: RealPool, client: Client) -> Row:
    """Let HAProxy reload again and again while 10,000 requests are sent."""
    load = client.begin_load(address(pool, "api"), threads=8, most=REQUESTS)
    changes = 0
    while load.is_running():
        # Out and back in: each time another configuration.
        pool.do("network", "lb-drain", "web", "api", "work.0", "--timeout", "0")
        pool.do("network", "lb-drain", "web", "api", "work.0", "--undo")
        changes += 2
    load.finish(LOAD_SECONDS)
    note = f"{sum(load.names.values())} answered; {changes} changes"
    failed = len(load.failures)
    figure = f"failed of {REQUESTS} requests across reloads"
    return Row(figure, "requests", failed, COMMAND, limit=0, note=note)


def _measure_drains(pool: RealPool, client: Client) -> Row:
    """Take a job out and put it back under load, then stop another one."""
    with client.begin_load(address(pool, "api"), "/slow", threads=8) as load:
        for _ in range(DRAINS):
            pool.do("network", "lb-drain", "web", "api", "work.0")
            pool.do("network", "lb-drain", "web", "api", "work.0", "--undo")
        pool.do("stop", "work.1")
        pool.until_state("work.1", "stopped")
    note = f"{sum(load.names.values())} answered; {DRAINS} drains and a stop"
    failed = len(load.failures)
    return Row("failed requests while jobs drain", "requests", failed, COMMAND, limit=0, note=note)


def _measure_down(pool: RealPool, client: Client) -> list[Row]:
    """Measure how long a job that takes no more connections counts as one that does."""
    client.status(f"http://{pool.job('work.2')['address']}:80/deaf")
    began = time.monotonic()
    until_members(pool, "api", {JOBS[0]: "up", JOBS[2]: "down"})
    seconds = time.monotonic() - began
    before = count_requests(pool, "api", JOBS[2])
    after = client.begin_load(address(pool, "api"), most=1000)
    after.finish(LOAD_SECONDS)
    # One more look of the agent, so that the counts have the last requests.
    pool.until(lambda: count_requests(pool, "api", JOBS[0]) >= 1000, "the last requests")
    gained = count_requests(pool, "api", JOBS[2]) - before
    failed = len(after.failures)
    figure = "until a job that takes no connections is down"
    return [
        Row(figure, "s", seconds, COMMAND, limit=DOWN_SECONDS),
        Row("of 1,000 requests then sent to it", "requests", gained, COMMAND, limit=0),
        Row("of 1,000 requests then failed", "requests", failed, COMMAND, limit=0),
    ]
