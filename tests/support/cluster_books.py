"""What a meter is tried with: a server that keeps books, and a ledger written at instants that the
test knows."""

from __future__ import annotations

import asyncio
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from gpupool.kubernetes.client.api import KubeApi
from gpupool.kubernetes.client.connection import load_kubeconfig
from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.ledger.journal import IntervalJournal
from gpupool.kubernetes.manifests import install
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.closed_intervals import ClosedInterval
from gpupool.kubernetes.resources.gpu_node import Entry, GpuNode
from gpupool.model.allocation import Seat
from tests.e2e.pool_fixture import SECONDS, RealPool
from tests.support.claims import claim_port
from tests.support.cluster.pki import Pair
from tests.support.cluster_pool import ClusterPool

S = 10**9
HOURS_AGO = 12
USER = ("user", "add", "cluster-meter", "--role", "meter")
TOKEN = ("token", "create", "--user", "cluster-meter")
PAGES = f"/api/v1/namespaces/{install.NAMESPACE}/configmaps?labelSelector={names.JOURNAL}%3Dtrue"


class Books:
    """A gpupool server of its own. `with Books(place) as books`: at `url` it listens, `token` is a
    meter's."""

    def __init__(
        self,
        place: Path,
        user: Sequence[str] = USER,
        token: Sequence[str] = TOKEN,
        address: str = "127.0.0.1",
        pair: Pair | None = None,
    ) -> None:
        """By these commands it gets a user for the meter, and its token; with a certificate it
        listens with TLS."""
        port = claim_port()
        self._user, self._token = user, token
        self.pool = RealPool(place / "state", "1xL40S")
        self.url = f"{'https' if pair else 'http'}://{address}:{port}"
        self.token = place / "meter-token"
        tls = ["--tls-cert", str(pair.certificate), "--tls-key", str(pair.key)] if pair else []
        self._listen = ("--listen", f"{address}:{port}", *tls)
        self._handle = -1

    def __enter__(self) -> Books:
        self.start("--sim", self.pool.sim)
        self.pool.do(*self._user)
        self.token.write_text(self.pool.do(*self._token))
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)
        self.pool.__exit__()

    def start(self, *words: str) -> None:
        self.pool.up(*words, *self._listen)
        self._handle = os.pidfd_open(self.pool.server_pid())

    def kill(self) -> None:
        """kill -9, until it has ended."""
        signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        assert select.select([self._handle], [], [], SECONDS)[0], "the server does not end"

    def come_back(self) -> None:
        """After a kill."""
        os.close(self._handle)
        self.start()

    def milliseconds(self, of: Written) -> dict[str, int]:
        """By pod of that ledger what it held, in thousandths of a card times seconds; the books
        close."""
        found = self.pool.json("report", "--by", "job,tenant")
        assert found["closes"]
        rows = [
            row
            for row in found["rows"]
            if row["kind"] == "tenant" and row["job"].startswith(f"{of.name}-")
        ]
        return {row["job"]: row["card_milliseconds"] for row in rows}


class MeterProcess:
    """The meter, as the account that it has in a cluster."""

    def __init__(self, pool: ClusterPool, books: Books) -> None:
        self._words = [
            sys.executable,
            "-m",
            "gpupool.kubernetes",
            "--kubeconfig",
            str(pool.kubeconfig(install.METER)),
        ]
        self._words += ["meter", "--server", books.url, "--token-file", str(books.token)]
        self.log = pool.place / "meter.log"
        self.start()

    def start(self) -> None:
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                self._words, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def kill(self) -> None:
        """kill -9; twice is once."""
        self._process.kill()
        self._process.wait()


class Written:
    """One node's ledger as its controller writes it, at instants of the past; and every stretch
    that it said."""

    def __init__(self, pool: ClusterPool, name: str, chance: random.Random) -> None:
        self.name, self._pool, self._chance = name, pool, chance
        self._connection = load_kubeconfig(pool.kubeconfig(install.CONTROLLER))
        self._at_ns, self._number = time.time_ns() - HOURS_AGO * 3600 * S, 0
        self.over: dict[tuple[str, int], ClosedInterval] = {}

    @property
    def node(self) -> GpuNode:
        return GpuNode.from_json(self._pool.admin.get(f"{ledger.NODES}/{self.name}"))

    def others(self, count: int) -> GpuNode:
        """So many new ones hold from now on, and nobody else: what was held has ended."""
        first, self._number = self._number, self._number + count
        return self.write(f"{self.name}-{number}" for number in range(first, first + count))

    def write(self, uids: Iterable[str]) -> GpuNode:
        """Who holds from now on; a while after the last write."""
        self._at_ns += self._chance.randrange(1, 40 * S)
        written = asyncio.run(self._write(list(uids)))
        self.over |= {(one.uid, one.held_ns): one for one in written.ended}
        return written

    async def _write(self, uids: list[str]) -> GpuNode:
        async with KubeApi(self._connection) as api:
            node = await ledger.read_ledger(api, self.name)
            assert node is not None
            had = {entry.uid: entry for entry in node.entries}
            entries = [had.get(uid) or _entry(node, uid) for uid in uids]
            written = await ledger.write_entries(
                api, node, entries, self._at_ns, IntervalJournal(api, install.NAMESPACE)
            )
        assert written is not None, "somebody else writes this ledger"
        return written

    def is_told(self) -> bool:
        """Whether all that ended is in the books, as far as the meter says, and nothing is left in
        the journal."""
        last = max((one.ended_ns for one in self.over.values()), default=0)
        return self.node.metered_ns >= last and not self._pool.admin.get(PAGES)["items"]

    def milliseconds(self) -> dict[str, int]:
        """By pod what it held, counted by whole seconds, as the books do."""
        found: dict[str, int] = {}
        for one in self.over.values():
            whole = one.ended_ns // S - one.held_ns // S
            found[one.uid] = found.get(one.uid, 0) + whole * sum(
                seat.gpu_milli for seat in one.seats
            )
        return {uid: amount for uid, amount in found.items() if amount}


def _entry(node: GpuNode, uid: str) -> Entry:
    card = node.cards[hash(uid) % len(node.cards)]
    return Entry(
        uid, "space", uid, "main", (Seat(card.uuid, 5, 1 << 26),), "team", account="default"
    )
