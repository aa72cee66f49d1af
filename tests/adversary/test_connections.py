"""Two accounts open as many watches as they can: everybody else goes on, and the pool says no with
a number."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gpupool.base.errors import TooManyConnections
from gpupool.client.sdk import Pool
from gpupool.server.http.connections import PER_SOURCE
from tests.e2e.pool_fixture import RealPool
from tests.support.accounts import acting_as, open_directory

pytestmark = [
    pytest.mark.adversary,
    pytest.mark.root,
    pytest.mark.skipif(os.getuid() != 0, reason="only root can be several people"),
]

MALLORY, TRUDY, ALICE = 54331, 54332, 54333
WATCHES = 3000
#: Opens WATCHES watches as one account and counts what becomes of them; holds them until its stdin
#: ends.
ATTACK = """
import json, os, select, socket, sys
from collections import Counter
path, count, uid = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.setgroups([]), os.setgid(uid), os.setuid(uid)
held, outcomes, codes = [], Counter(), Counter()
for n in range(count):
    one = socket.socket(socket.AF_UNIX)
    one.settimeout(30)
    try:
        one.connect(path)
        one.sendall(b"GET /api/v1/watch?after=0 HTTP/1.1\\r\\nHost: pool\\r\\n\\r\\n")
        said = one.recv(65536)
    except OSError as error:
        outcomes[type(error).__name__] += 1
        continue
    outcomes[said.split(b" ")[1].decode() if said else "closed"] += 1
    if b"GP-" in said:
        problem = json.loads(said.partition(b"\\r\\n\\r\\n")[2])
        codes[problem["code"]] += 1
        assert b"retry-after: 5" in said.lower(), said
        assert problem["numbers"]["open"] == problem["numbers"]["most"], said
    else:
        held.append(one)
print(json.dumps({"outcomes": outcomes, "codes": codes}), flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    """In a directory that others can reach."""
    with open_directory() as place, RealPool(place / "pool", "2xL40S") as made:
        yield made


@contextmanager
def attackers(pool: RealPool, *uids: int) -> Iterator[list[dict[str, Any]]]:
    """What became of each account's watches, while it still holds those it has."""
    words = [sys.executable, "-c", ATTACK, str(pool.state_dir / "gpupool.sock"), str(WATCHES)]

    def many_descriptors() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (WATCHES + 100, WATCHES + 100))

    running = [
        subprocess.Popen(
            [*words, str(uid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            preexec_fn=many_descriptors,
        )
        for uid in uids
    ]
    try:
        yield [json.loads(one.stdout.readline()) for one in running if one.stdout]
    finally:
        for one in running:
            one.communicate(timeout=60)


def whoami(pool: RealPool) -> Callable[[], str]:
    def act() -> str:
        with Pool(state_dir=str(pool.state_dir)) as connected:
            return connected.whoami().user

    return act


def gets_in(pool: RealPool, uid: int) -> bool:
    try:
        return bool(acting_as(uid, whoami(pool)))
    except TooManyConnections:
        return False


def test_two_accounts_with_thousands_of_watches_stop_nobody(pool: RealPool) -> None:
    server, log = pool.server_pid(), Path(pool.state_dir) / "server.log"
    before = resident_kib(server)
    with attackers(pool, MALLORY, TRUDY) as told:
        for one in told:
            outcomes, codes = Counter(one["outcomes"]), Counter(one["codes"])
            assert outcomes["200"] == PER_SOURCE
            assert outcomes["429"] == codes["GP-5032"] > 0
            assert outcomes.total() == WATCHES
            assert set(outcomes) <= {
                "200",
                "429",
                "closed",
                "ConnectionResetError",
                "BrokenPipeError",
            }, outcomes
        # Root and other accounts go on: commands, a job from its start to its end, and the server's
        # own agent.
        assert pool.run("ps").returncode == 0
        assert acting_as(ALICE, whoami(pool)) == f"uid-{ALICE}"
        done = pool.run(
            "run", "--quiet", "--gpu", "0.1", "--memory", "1GiB", "--", "echo", "still here"
        )
        assert (done.returncode, done.stdout) == (0, "still here\n"), done.stderr
        with pytest.raises(TooManyConnections, match=f"uid {MALLORY} has {PER_SOURCE} connections"):
            acting_as(MALLORY, whoami(pool))
        assert len(os.listdir(f"/proc/{server}/fd")) < 2 * PER_SOURCE + 400
        assert resident_kib(server) - before < 200 * 1024
        assert log.stat().st_size < 1 << 20
    # What they held is free again as soon as they are gone.
    pool.until(lambda: gets_in(pool, MALLORY), "an account that closed all may come again")
    assert pool.server_pid() == server


def test_idle_connections_and_half_requests_count_as_well(pool: RealPool) -> None:
    """Who sends nothing, or never ends its request, holds a connection all the same."""
    place = f"{pool.state_dir}/gpupool.sock"

    def hold() -> str:
        held = [socket.socket(socket.AF_UNIX) for _ in range(PER_SOURCE + 40)]
        for n, one in enumerate(held):
            one.connect(place)
            if n % 2:
                one.sendall(b"GET /api/v1/whoami HTTP/1.1\r\n")
        last = socket.socket(socket.AF_UNIX)
        last.connect(place)
        last.sendall(b"GET /api/v1/whoami HTTP/1.1\r\nHost: pool\r\n\r\n")
        return last.recv(65536).decode()

    said = acting_as(TRUDY, hold)
    assert "GP-5032" in str(said), said
    assert pool.run("ps").returncode == 0


def resident_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
