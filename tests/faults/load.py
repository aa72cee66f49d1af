"""Load on a pool that is being killed: jobs of several tenants that write down what really happened
to them.

Every command appends one line to a file of its job when it starts and one when it ends, so a second
run shows. What was asked for, stopped or killed by us is kept in a `Truth`, against which the
pool's word is judged later.
"""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpupool.base.errors import NotFound, RequestRejection, ServiceUnavailable
from gpupool.client.sdk import Pool
from gpupool.client.transport import Api
from tests.faults.pool import GPUPOOL, FaultPool, answer_of, environment
from tests.faults.workers import Workers

TENANTS = ("default", "red", "green", "blue")
MIB = 1 << 20
FAIL_CODE = 42
_BODIES = {
    "quick": ":",
    "nap": "sleep {seconds}",
    "fail": f"(exit {FAIL_CODE})",
    # A grandchild in a session of its own that hears no signal, and one that was abandoned.
    "daemon": "setsid sh -c 'trap \"\" TERM HUP INT; sleep 300; :' & (sleep 300 &) ; sleep {seconds}",
    "deaf": "trap '' TERM HUP INT; while :; do sleep 1; done",
    "overtime": "sleep 300",
    "hold": "sleep 300",
}
ENDLESS = frozenset({"deaf", "hold"})
"""Kinds that end only when somebody ends them."""


@dataclass
class Intent:
    """One submission: what was asked for, what we did to it since."""

    token: str
    kind: str
    count: int
    attached: bool = False
    first: str | None = None
    """The first job's id, when the pool answered."""
    certain: bool = True
    """Whether we asked until we had an answer; else there may be no job of it."""
    stopped: bool = False
    client_gone: bool = False
    """Its client was killed, or ended without the job's own exit code."""


@dataclass
class Truth:
    """What we know without asking the pool. Everything is noted before it is done."""

    lines: Path
    intents: dict[str, Intent] = field(default_factory=dict)
    killed_supervisors: set[str] = field(default_factory=set)
    killed_jobs: set[str] = field(default_factory=set)
    stopped_jobs: set[str] = field(default_factory=set)
    shortages: set[str] = field(default_factory=set)
    """What the pool ran short of at some time."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def intend(self, kind: str, count: int, **more: Any) -> Intent:
        with self.lock:
            intent = Intent(f"token-{len(self.intents)}", kind, count, **more)
            self.intents[intent.token] = intent
        return intent

    def script(self, intent: Intent, seconds: float) -> list[str]:
        """The command: its start is one line, its end another, its token is the shell's $0."""
        body = _BODIES[intent.kind].format(seconds=f"{seconds:.2f}")
        out = f"{self.lines}/$GPUPOOL_JOB"
        return [
            "sh",
            "-c",
            f'echo s >>"{out}"; {body}; c=$?; echo "e $c" >>"{out}"; exit $c',
            intent.token,
        ]

    def lines_of(self, job: str) -> list[str]:
        try:
            return (self.lines / job).read_text().splitlines()
        except FileNotFoundError:
            return []


@dataclass
class Client:
    """An attached `gpupool run`."""

    process: subprocess.Popen[bytes]
    intent: Intent

    def end(self, number: signal.Signals, seconds: float = 60) -> None:
        self.process.send_signal(number)
        self.process.wait(seconds)


class Load(Workers):
    """Threads that submit, stop, wait and look. `clients` are theirs and the killer's."""

    def __init__(
        self, pool: FaultPool, truth: Truth, seed: int, *, threads: int = 3, live_at_most: int = 60
    ) -> None:
        super().__init__(self._work, seed, threads)
        self._pool, self._truth, self._live_at_most = pool, truth, live_at_most
        self.clients: list[Client] = []
        self.clients_lock = threading.Lock()

    def _work(self, chance: random.Random) -> None:
        with self._pool.api() as api:
            while not self.stopping.is_set():
                if answer_of(api, "GET", "pool")["jobs_live"] >= self._live_at_most:
                    self._stop_one(api, chance)
                    self.stopping.wait(0.1)
                    continue
                chance.choices(*self._actions())[0](api, chance)

    def _actions(self) -> tuple[list[Callable[[Api, random.Random], None]], list[int]]:
        weighed: list[tuple[Callable[[Api, random.Random], None], int]] = [
            (self._submit, 50), (self._array, 14), (self._by_cli, 4), (self._by_sdk, 6), (self._attach, 8),
            (self._stop_one, 10), (self._wait_one, 5), (self._look, 5),
        ]  # fmt: skip
        return [action for action, _ in weighed], [weight for _, weight in weighed]

    # What the threads do -------------------------------------------------------------------------------

    def _kind(self, chance: random.Random) -> str:
        kinds = ["quick", "nap", "fail", "daemon", "deaf", "overtime", "hold"]
        return chance.choices(kinds, [12, 22, 8, 10, 5, 4, 39])[0]

    def _body(self, intent: Intent, chance: random.Random) -> dict[str, Any]:
        shape = {
            "gpu_milli": chance.choice((50, 100, 100, 200, 300, 500)),
            "memory_bytes": chance.randint(1, 4000) * MIB,
        }
        if intent.count == 1 and chance.random() < 0.1:
            shape["count"] = 2
        launch = {
            "argv": self._truth.script(intent, chance.uniform(0.05, 1)), "cwd": "/",
            "env": {"PATH": "/usr/bin:/bin", "FAULT_POOL": str(self._pool.paths.root)},
        }  # fmt: skip
        body = {"shape": shape, "launch": launch, "tenant": chance.choice(TENANTS)}
        return body | ({"max_seconds": 1} if intent.kind == "overtime" else {})

    def _submit(self, api: Api, chance: random.Random) -> None:
        intent = self._truth.intend(self._kind(chance), 1)
        self._ask(api, chance, intent, self._body(intent, chance))

    def _array(self, api: Api, chance: random.Random) -> None:
        intent = self._truth.intend(self._kind(chance), chance.randint(2, 6))
        self._ask(api, chance, intent, self._body(intent, chance) | {"array": intent.count})

    def _ask(self, api: Api, chance: random.Random, intent: Intent, body: dict[str, Any]) -> None:
        """As a careful client does: under one key, until there is an answer."""
        key = f"{chance.getrandbits(128):032x}"
        intent.first = answer_of(api, "POST", "jobs", body, idempotency_key=key)["first"]["id"]

    def _by_cli(self, _api: Api, chance: random.Random) -> None:
        intent = self._truth.intend(chance.choice(("quick", "nap", "hold")), 1, certain=False)
        argv = self._truth.script(intent, chance.uniform(0.05, 1))
        self._command("submit", argv, chance).wait(120)

    def _by_sdk(self, _api: Api, chance: random.Random) -> None:
        intent = self._truth.intend(chance.choice(("quick", "nap", "fail")), 2, certain=False)
        try:
            with Pool(self._pool.paths.root) as pool:
                intent.first = pool.submit(
                    self._truth.script(intent, 0.2), array=2, gpu=0.1, memory="1GiB"
                ).first.id
        except ServiceUnavailable:
            return  # the pool was away, which is what this is about

    def _attach(self, _api: Api, chance: random.Random) -> None:
        with self.clients_lock:
            if len([one for one in self.clients if one.process.poll() is None]) < 5:
                self.attach(chance)

    def attach(self, chance: random.Random) -> Client:
        """A new attached client. The caller holds `clients_lock`."""
        intent = self._truth.intend(
            chance.choice(("nap", "fail", "hold", "hold", "deaf")), 1, certain=False, attached=True
        )
        argv = self._truth.script(intent, chance.uniform(0.2, 2))
        client = Client(self._command("run", argv, chance), intent)
        self.clients.append(client)
        return client

    def _command(
        self, verb: str, argv: list[str], chance: random.Random
    ) -> subprocess.Popen[bytes]:
        words = [
            GPUPOOL,
            verb,
            "--state-dir",
            str(self._pool.paths.root),
            "--gpu",
            "0.1",
            "--memory",
            "512MiB",
        ]
        return subprocess.Popen(
            [*words, "--tenant", chance.choice(TENANTS), "--", *argv],
            env=environment(FAULT_POOL=str(self._pool.paths.root)), cwd="/",
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            preexec_fn=_hear_ctrl_c,
        )  # fmt: skip

    def _some_job(self, api: Api, chance: random.Random) -> dict[str, Any] | None:
        page = answer_of(api, "GET", "jobs", query={"live": True, "limit": 50})["items"]
        return chance.choice(page) if page else None

    def _stop_one(self, api: Api, chance: random.Random) -> None:
        job = self._some_job(api, chance)
        if job is not None and is_array(job):
            self._truth.intents[
                job["command"][-1]
            ].stopped = True  # noted before it is done, for all its members
        if job is not None:
            stop(api, self._truth, job["id"], chance.choice((0, 0, 1)))

    def _wait_one(self, api: Api, chance: random.Random) -> None:
        job = self._some_job(api, chance)
        if job is not None and not is_array(job):
            query = {"generation": job["generation"], "wait_seconds": 0.5}
            answer_of(api, "GET", f"jobs/{job['id']}", query=query)

    def _look(self, api: Api, chance: random.Random) -> None:
        path = chance.choice(("devices", "usage", "report", "tenants"))
        answer_of(api, "GET", path)


def is_array(job: dict[str, Any]) -> bool:
    """Whether a line of a list stands for the members of an array that are no jobs yet."""
    return not job["id"].startswith("j-")


def _hear_ctrl_c() -> None:
    """Whoever started us in the background had us ignore it, and what is ignored stays so from
    parent to child."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def stop(api: Api, truth: Truth, job: str, grace_seconds: int) -> None:
    """Stop a job that may have ended meanwhile."""
    truth.stopped_jobs.add(job)
    try:
        answer_of(api, "POST", f"jobs/{job}/stop", {"grace_seconds": grace_seconds})
    except (RequestRejection, NotFound):
        return  # it ended by itself, or by the stop whose answer was lost


def settle_clients(load: Load, seconds: float = 60) -> None:
    """Let attached clients come to their end, the endless ones by Ctrl-C; notes those that could
    not keep their job.

    A program that hears no Ctrl-C ends by the second one in a short time, so we press as people do:
    until it is over.
    """
    with load.clients_lock:
        clients = list(load.clients)
    endless = [
        client
        for client in clients
        if client.process.poll() is None and client.intent.kind in ENDLESS
    ]
    for client in endless:
        client.intent.stopped = True
    deadline = time.monotonic() + seconds
    while (
        left := [client for client in endless if client.process.poll() is None]
    ) and time.monotonic() < deadline:
        for client in left:
            client.process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            left[0].process.wait(0.5)  # two that arrive together would be one
    for client in clients:
        code = client.process.wait(max(0.1, deadline - time.monotonic()))
        own = {"nap": 0, "fail": FAIL_CODE}.get(client.intent.kind)
        client.intent.client_gone |= code != own
