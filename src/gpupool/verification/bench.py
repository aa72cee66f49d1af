"""The jobs of a verification, or of a doctor's look: submitted as ordinary jobs, read by their logs, gone at the end.

Each has a longest time, so that none outlives a verification that was killed. Everything is taken back in
`__exit__`, whatever happened: jobs are ended and the tenants made for it are deleted.
"""

from __future__ import annotations

import logging
import os
import secrets
import sys
import time
from base64 import b64decode
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Final

from gpupool.base.errors import GpupoolError, NotAllowed, Refused, Unavailable, WrongState
from gpupool.base.units import MIB
from gpupool.client.submission import capture
from gpupool.client.transport import Api
from gpupool.verification.records import Record

ENDED: Final = frozenset({"done", "failed", "stopped", "lost"})
LONGEST_SECONDS: Final = 180
_PATIENCE_SECONDS: Final = 30.0
_PIECE: Final = 1 << 20

log = logging.getLogger(__name__)


class Task:
    """One job of a verification and what it has said."""

    def __init__(self, api: Api, job: dict[str, Any]) -> None:
        self._api, self.job, self.record = api, job, Record()
        self._offset, self._over = 0, False

    @property
    def id(self) -> str:
        return str(self.job["id"])

    def read(self, wait_seconds: float) -> None:
        """Take in what it has written since."""
        query = {"offset": self._offset, "limit": _PIECE, "wait_seconds": wait_seconds}
        piece = self._api.request("GET", f"jobs/{self.id}/logs", query=query, timeout=wait_seconds + 30)
        self.record.feed(b64decode(piece["data"]))
        self._offset, self._over = piece["next_offset"], piece["ended"]

    def until(self, condition: Callable[[Record], Any], what: str, seconds: float = _PATIENCE_SECONDS) -> Any:
        """Read until it is so. Raises Unavailable when the job ends first, or in that time it never is."""
        deadline = time.monotonic() + seconds
        while True:
            found = condition(self.record)
            if found:
                return found
            left = deadline - time.monotonic()
            if self._over or left <= 0:
                raise self.silent(what)
            self.read(min(left, 10.0))

    def loaded_for(self, seconds: float) -> None:
        """Until its series is that long."""

        def long_enough(record: Record) -> bool:
            series = record.series()
            return bool(series) and series[-1].end_ns - series[0].begin_ns >= seconds * 1e9

        self.until(long_enough, f"{seconds:g} s of its load", seconds + _PATIENCE_SECONDS)

    def end(self, seconds: float = LONGEST_SECONDS) -> dict[str, Any]:
        """The job as it ended, everything it wrote taken in. Raises Unavailable when it does not end in that time."""
        deadline = time.monotonic() + seconds
        while not self._over:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self.silent("its end")
            self.read(min(left, 10.0))
        return self.latest()

    def latest(self) -> dict[str, Any]:
        """The job as the pool has it now."""
        self.job = self._api.request("GET", f"jobs/{self.id}")
        return self.job

    def stop(self) -> None:
        """Ask for its end; one that has ended by itself is as well."""
        try:
            self._api.request("POST", f"jobs/{self.id}/stop", {"grace_seconds": 0})
        except WrongState:
            log.debug("%s had ended", self.id)

    def card(self) -> dict[str, Any]:
        """What the driver told it first."""
        found: dict[str, Any] = self.until(lambda record: record.first("card"), "its first word on its card")
        return found

    def silent(self, what: str) -> Unavailable:
        """It has not done what was waited for: how it ended, or what it said instead."""
        job = self.latest()
        ended = job["state"] if not job["reason"] else f"{job['state']}: {job['reason']}"
        said = "; ".join([ended, *self.record.other[-3:]])
        return Unavailable(f"job {job['name']} never came to {what} ({said[:400]})", hint=f"gpupool logs {job['name']}")


class Bench:
    """A card to verify and the right to load it. `with Bench(api, model) as bench`.

    Without a model jobs go where the pool has room. The names of jobs and tenants begin with `purpose`.
    """

    def __init__(self, api: Api, model: str | None = None, purpose: str = "verify") -> None:
        self.api, self._model, self._token = api, model, f"{purpose}-{secrets.token_hex(3)}"
        self._tasks: list[Task] = []
        self._unanswered: dict[str, dict[str, Any]] = {}
        self._tenants: list[str] = []
        self._count = 0
        self.device = ""
        """The card on which all jobs must be; any while it is empty."""

    def __enter__(self) -> Bench:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """A request that was cut short may have left half an answer: clean up on a connection of our own."""
        with self.api.another() as api:
            for key in list(self._unanswered):
                _quietly(lambda key=key: self._ask(api, key))  # type: ignore[misc]
            for task in self._tasks:
                _quietly(lambda task=task: self._stop(api, task))  # type: ignore[misc]
            for task in self._tasks:
                _quietly(lambda task=task: _await_end(api, task))  # type: ignore[misc]
            for tenant in self._tenants:
                _quietly(lambda tenant=tenant: api.request("DELETE", f"tenants/{tenant}"))  # type: ignore[misc]

    def tenants(self) -> tuple[str | None, str | None]:
        """Two tenants of our own; (None, None), the caller's own, where it may not make any."""
        try:
            for part in ("a", "b"):
                name = f"{self._token}-{part}"
                self._tenants.append(name)
                self.api.request("POST", "tenants", {"name": name})
        except NotAllowed:
            self._tenants.clear()
            return None, None
        return self._tenants[0], self._tenants[1]

    def settle(self, card: dict[str, Any], others: Sequence[dict[str, Any]]) -> None:
        """See to it that jobs of ours come to `card`, which is wholly free. Raises Refused when they do not.

        A claim cannot name a card, but the pool prefers the fullest that has room: so what the others of this model
        have free is held until the end, where that is needed.
        """
        self.device = str(card["name"])
        if self._goes_there():
            return
        for other in sorted(others, key=lambda one: int(one["largest_milli"])):
            whole = other["shares"] == 0
            size = (1000, None) if whole else (other["largest_milli"], other["largest_bytes"])
            if other["largest_milli"] > 0 and other["largest_bytes"] > 0:
                filler = self._launch("holds", ["sleep", str(LONGEST_SECONDS)], *size)
                if filler.job["device"] == self.device:
                    self._give_back(filler)
                    break
        if not self._goes_there():
            raise Refused(
                f"the pool places jobs elsewhere than on {self.device}",
                hint="verify needs a policy that packs; release the other cards meanwhile, or name another one",
            )

    def _goes_there(self) -> bool:
        trial = self._launch("trial", ["sleep", "60"], 1, MIB)
        self._give_back(trial)
        return bool(trial.job["device"] == self.device)

    def _give_back(self, task: Task) -> None:
        self._stop(self.api, task)
        _await_end(self.api, task)

    def program(
        self, what: str, argv: Sequence[str], gpu_milli: int, memory_bytes: int | None, *, fence: bool = True
    ) -> Task:
        """Any command, as `submit` does it for a burn; None bytes are a whole card's. Raises Refused."""
        return self._launch(what, argv, gpu_milli, memory_bytes, fence=fence)

    def submit(
        self,
        what: str,
        words: Sequence[str],
        *,
        gpu_milli: int,
        memory_bytes: int | None,
        tenant: str | None = None,
        sharing: str = "fixed",
        shell: str = "",
    ) -> Task:
        """A burn with these words in a share; or a shell command, in which `"$@"` is that burn.

        Raises Refused when the share is not to be had on the card at once, or the pool would place it elsewhere.
        """
        burn = [*burn_command(self.api.local), *words, "-o", "json"]
        argv = ["/bin/sh", "-c", shell, "verify", *burn] if shell else burn
        task = self._launch(what, argv, gpu_milli, memory_bytes, tenant, sharing)
        if self.device and task.job["device"] != self.device:
            raise Refused(
                f"{task.job['name']} was placed on {task.job['device']}, not on {self.device} beside the others",
                hint="another job took a part of the card meanwhile; try again",
            )
        return task

    def _launch(
        self,
        what: str,
        argv: Sequence[str],
        gpu_milli: int,
        memory_bytes: int | None,
        tenant: str | None = None,
        sharing: str = "fixed",
        fence: bool = True,
    ) -> Task:
        shape = {"gpu_milli": gpu_milli, "memory_bytes": memory_bytes, "model": self._model, "sharing": sharing}
        self._count += 1
        body = {
            "shape": shape,
            "launch": capture(argv, cwd="/", local=False),
            "name": f"{self._token}-{self._count}-{what}",
            "tenant": tenant,
            "max_seconds": LONGEST_SECONDS,
            "wait": False,
            "fence": fence,
        }
        key = os.urandom(16).hex()
        self._unanswered[key] = body
        return self._ask(self.api, key)

    def _ask(self, api: Api, key: str) -> Task:
        """Submit what stands under the key. Cut short, it can be asked again: the pool answers with the same job."""
        try:
            told = api.request("POST", "jobs", self._unanswered[key], query={"wait_seconds": 10}, idempotency_key=key)
        except Unavailable:
            raise  # it may have heard us
        except GpupoolError:
            del self._unanswered[key]
            raise
        self._tasks.append(Task(self.api, told["first"]))
        del self._unanswered[key]
        return self._tasks[-1]

    @staticmethod
    def _stop(api: Api, task: Task) -> None:
        if api.request("GET", f"jobs/{task.id}")["state"] not in ENDED:
            api.request("POST", f"jobs/{task.id}/stop", {"grace_seconds": 0})


def burn_command(local: bool) -> list[str]:
    """As a job finds it: on this machine this very installation, elsewhere the one there."""
    return [sys.executable, "-m", "gpupool.cli.main", "burn"] if local else ["gpupool", "burn"]


def _await_end(api: Api, task: Task) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    job = api.request("GET", f"jobs/{task.id}")
    while job["state"] not in ENDED and (left := deadline - time.monotonic()) > 0:
        query = {"generation": job["generation"], "wait_seconds": min(10.0, round(left, 1))}
        job = api.request("GET", f"jobs/{task.id}", query=query)


def _quietly(step: Callable[[], object]) -> None:
    """Cleaning up goes on whatever one step meets; what is left ends by its longest time."""
    try:
        step()
    except GpupoolError as error:
        log.warning("cleaning up: %s", error)
