"""Submit the jobs of a verification, read their logs, and remove them at the end.

They are ordinary jobs. Each has a longest time, so that none outlives a verification that was
killed with -9. `__exit__` takes everything back, whatever happened: jobs are ended, and tenants
that were created are deleted.
"""

from __future__ import annotations

import logging
import os
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from gpupool.base.errors import (
    GpupoolError,
    NoPermission,
    RequestRejection,
    ServiceUnavailable,
)
from gpupool.base.units import MIB
from gpupool.client.launch_capture import capture
from gpupool.client.transport import Api
from gpupool.verification.verification_job import (
    ENDED,
    LONGEST_SECONDS,
    PATIENCE_SECONDS,
    VerificationJob,
)

log = logging.getLogger(__name__)


class VerificationBench:
    """A card to verify and the right to load it. `with Bench(api, model) as bench`.

    Without a model jobs go where the pool has room. The names of jobs and tenants begin with
    `purpose`.
    """

    def __init__(self, api: Api, model: str | None = None, purpose: str = "verify") -> None:
        self.api = api
        self._model = model
        # Random, so that two verifications of one pool do not meet in the names of jobs.
        self._token = f"{purpose}-{secrets.token_hex(3)}"
        self._tasks: list[VerificationJob] = []
        self._unanswered: dict[str, dict[str, Any]] = {}
        self._tenants: list[str] = []
        self._count = 0
        #: The card on which all jobs must be; any while it is empty.
        self.device = ""
        #: The other cards of the model, whose free parts are not held yet.
        self._others: list[dict[str, Any]] = []

    def __enter__(self) -> VerificationBench:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove all jobs and tenants, on another connection.

        A request that Ctrl-C cut short may have left half an answer on the first one.
        """
        with self.api.another() as api:
            # A submission without an answer may have made a job: the same key gets the same job.
            for key in list(self._unanswered):
                _run_quietly(lambda key=key: self._send_submission(api, key))  # type: ignore[misc]
            # All are stopped before the first is waited for: they end side by side.
            for task in self._tasks:
                _run_quietly(lambda task=task: self._stop_job(api, task))  # type: ignore[misc]
            for task in self._tasks:
                _run_quietly(lambda task=task: _await_end(api, task))  # type: ignore[misc]
            for tenant in self._tenants:
                _run_quietly(lambda tenant=tenant: api.request("DELETE", f"tenants/{tenant}"))  # type: ignore[misc]

    def choose_tenants(self) -> tuple[str | None, str | None]:
        """Create two tenants; (None, None), the caller's own tenant, where it may not create any."""
        try:
            for part in ("a", "b"):
                name = f"{self._token}-{part}"
                # Before the request: a tenant whose answer is lost is deleted too.
                self._tenants.append(name)
                self.api.request("POST", "tenants", {"name": name})
        except NoPermission:
            self._tenants.clear()
            return None, None
        return self._tenants[0], self._tenants[1]

    def choose_card(self, card: dict[str, Any], others: Sequence[dict[str, Any]]) -> None:
        """Make sure that all jobs are placed on `card`, which is wholly free.

        A claim cannot name a card, but the pool prefers the fullest card with room. So the free
        parts of the other cards of this model are held until the end, where that is needed.

        Raises:
            RequestRejection: if jobs are placed elsewhere all the same.
        """
        self.device = str(card["name"])
        self._others = sorted(others, key=lambda one: int(one["largest_milli"]))
        if self._can_use_node():
            return
        self._hold_others()
        if not self._can_use_node():
            raise RequestRejection(
                f"the pool places jobs elsewhere than on {self.device}",
                hint="verify needs a policy that packs; release the other cards meanwhile, or name another one",
            )

    def _hold_others(self) -> None:
        """Hold the free parts of the other cards until the end; idempotent."""
        others = self._others
        self._others = []
        for other in others:
            whole = other["shares"] == 0
            size = (1000, None) if whole else (other["largest_milli"], other["largest_bytes"])
            if other["largest_milli"] > 0 and other["largest_bytes"] > 0:
                filler = self._submit_launch("holds", ["sleep", str(LONGEST_SECONDS)], *size)
                if filler.job["device"] == self.device:
                    self._clean_up(filler)
                    break

    def _can_use_node(self) -> bool:
        trial = self._submit_launch("trial", ["sleep", "60"], 1, MIB)
        self._clean_up(trial)
        return bool(trial.job["device"] == self.device)

    def _clean_up(self, task: VerificationJob) -> None:
        self._stop_job(self.api, task)
        _await_end(self.api, task)

    def submit_program(
        self,
        what: str,
        argv: Sequence[str],
        gpu_milli: int,
        memory_bytes: int | None,
        *,
        fence: bool = True,
    ) -> VerificationJob:
        """Submit any command; None bytes are a whole card's. Raises as `submit_burn`."""
        return self._submit_launch(what, argv, gpu_milli, memory_bytes, fence=fence)

    def submit_burn(
        self,
        what: str,
        words: Sequence[str],
        *,
        gpu_milli: int,
        memory_bytes: int | None,
        tenant: str | None = None,
        sharing: str = "fixed",
        shell: str = "",
    ) -> VerificationJob:
        """Submit a burn with these words in a share, or a shell command in which `"$@"` is the burn.

        Raises:
            RequestRejection: if the share cannot be had at once, or is placed on another card.
        """
        burn = [*build_burn_command(self.api.local), *words, "-o", "json"]
        argv = ["/bin/sh", "-c", shell, "verify", *burn] if shell else burn
        task = self._submit_launch(what, argv, gpu_milli, memory_bytes, tenant, sharing)
        if self.device and task.job["device"] != self.device and self._others:
            # The policy also weighs what it expects, so that the trial came here and this did not.
            self._clean_up(task)
            self._hold_others()
            task = self._submit_launch(what, argv, gpu_milli, memory_bytes, tenant, sharing)
        if self.device and task.job["device"] != self.device:
            raise RequestRejection(
                f"{task.job['name']} was placed on {task.job['device']}, not on {self.device} beside the others",
                hint="another job took a part of the card meanwhile; try again",
            )
        return task

    def _submit_launch(
        self,
        what: str,
        argv: Sequence[str],
        gpu_milli: int,
        memory_bytes: int | None,
        tenant: str | None = None,
        sharing: str = "fixed",
        fence: bool = True,
    ) -> VerificationJob:
        shape = {
            "gpu_milli": gpu_milli,
            "memory_bytes": memory_bytes,
            "model": self._model,
            "sharing": sharing,
        }
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
        return self._send_submission(self.api, key)

    def _send_submission(self, api: Api, key: str) -> VerificationJob:
        """Submit what stands under the key; repeated, the pool answers with the same job."""
        try:
            answer = api.request(
                "POST",
                "jobs",
                self._unanswered[key],
                query={"wait_seconds": 10},
                idempotency_key=key,
            )
        except ServiceUnavailable:
            raise  # the pool may have read the request: `__exit__` asks again
        except GpupoolError:
            del self._unanswered[key]
            raise
        self._tasks.append(VerificationJob(self.api, answer["first"]))
        del self._unanswered[key]
        return self._tasks[-1]

    @staticmethod
    def _stop_job(api: Api, task: VerificationJob) -> None:
        if api.request("GET", f"jobs/{task.id}")["state"] not in ENDED:
            api.request("POST", f"jobs/{task.id}/stop", {"grace_seconds": 0})


def build_burn_command(local: bool) -> list[str]:
    """Return the command of a burn: this very installation on this machine, elsewhere its own."""
    return [sys.executable, "-m", "gpupool.cli.main", "burn"] if local else ["gpupool", "burn"]


def _await_end(api: Api, task: VerificationJob) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    job = api.request("GET", f"jobs/{task.id}")
    while job["state"] not in ENDED and (left := deadline - time.monotonic()) > 0:
        query = {"generation": job["generation"], "wait_seconds": min(10.0, round(left, 1))}
        job = api.request("GET", f"jobs/{task.id}", query=query)


def _run_quietly(step: Callable[[], object]) -> None:
    """Run a step of cleaning up; after an error the other steps go on, and the log has it.

    What is left ends by its longest time.
    """
    try:
        step()
    except GpupoolError as error:
        log.warning("cleaning up: %s", error)
