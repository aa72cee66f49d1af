"""Jobs that the server submits for their owner, each under a key: a repetition gives the same job."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.services.jobs import JobService
from gpupool.allocations.services.owner_accounts import OwnerAccounts, find_account
from gpupool.model.tenant import PERMISSIONS, Permission, UserRole
from gpupool.store import idempotency
from gpupool.store.database import Store
from gpupool.tenancy.service import TenancyService
from gpupool.wire.fleet import RunAs
from gpupool.wire.submissions import JobIn


class KeyedJobs:
    """Submits jobs and finds what an earlier server has submitted. Thread-safe."""

    def __init__(self, store: Store, tenancy: TenancyService, jobs: JobService) -> None:
        self._store = store
        self._tenancy = tenancy
        self._jobs = jobs

    def find(self, user_id: int, key: str) -> str | None:
        """Return the job or array of a key, of the last 24 hours; None: it was not submitted."""
        now_ns = self._store.running_ns(self._store.clock.now_ns())
        with self._store.read() as connection:
            answer = idempotency.find_answer(connection, _make_request(user_id, key), now_ns)
        if answer is None or "body" not in answer.response:
            return None
        body = answer.response["body"]
        return str(body["array"] or body["first"]["id"])

    def submit(
        self, key: str, body: JobIn, owner: OwnerAccounts, run_as: Mapping[str, Any] | None
    ) -> str:
        """Submit a job, unless the key has one already; return its id, or the array's name.

        Args:
            key: Unique for the owner.
            body: The request.
            owner: The owner, and its accounts of now.
            run_as: The local user that starts the command, as `describe_account` wrote it; None for
                the agent's own.

        Raises:
            NoUnixUser: The owner has no account any more.
            GpupoolError: The rejection with its numbers. Nothing is written then.
        """
        principal = owner.owner
        known = self.find(principal.user_id, key)
        if known is not None:
            return known
        found = find_account(self._tenancy, run_as, owner)
        account = None if found is None else RunAs.model_validate(found)
        token = idempotency.current.set(_make_request(principal.user_id, key))
        try:
            submitted = self._jobs.submit_job(body, principal, account)
        finally:
            idempotency.current.reset(token)
        return submitted.array or submitted.first.id


def describe_lost_right(owned: sa.Row[Any]) -> str:
    """Return why the owner's jobs may not be submitted any more; empty: they may.

    No request of the owner comes with them, so nothing else asks for the owner's rights of now.

    Args:
        owned: What submits, with `tenant_id` and `tenant`, and of its owner `user`, `role`,
            `user_tenant_id`, `disabled_ns` and `retired_ns`.
    """
    if owned.disabled_ns is not None or owned.retired_ns is not None:
        return f"its owner {owned.user} has left"
    if owned.user_tenant_id != owned.tenant_id:
        return f"its owner {owned.user} is no longer of tenant {owned.tenant}"
    if Permission.RUN not in PERMISSIONS[UserRole(owned.role)]:
        return f"its owner {owned.user} has the role {owned.role}, which may not run jobs"
    return ""


def _make_request(user_id: int, key: str) -> idempotency.IdempotentRequest:
    return idempotency.IdempotentRequest(user_id, key, hashlib.sha256(b"").hexdigest())
