"""What the rest of sign-on says of a leaver, and what it asks of the package that has the jobs.

Must not import admission, which records leavers.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Protocol

import sqlalchemy as sa

from gpupool.model.tenant import Principal
from gpupool.store.database import WriteTransaction
from gpupool.wire.leavers.policies import LeaverAct

#: Seconds that the jobs of a person without groups are left alone: providers move a person by two
#: requests, and a cycle of Entra ID takes 40 minutes.
GROUPS_GRACE_SECONDS: Final = 3600
#: The reason of a leaver that the directory still has.
LOST_GROUPS: Final = "no rule matches its groups any more"


@dataclass(frozen=True)
class LeaverChoice:
    """What becomes of a leaver's jobs. `until_ns`: kept until then; None: without an end."""

    act: LeaverAct
    until_ns: int | None = None
    heir: str | None = None
    #: An admin of the pool chose it: the heir may take over jobs of any Unix account.
    by_pool: bool = True


@dataclass(frozen=True)
class LeaverFacts:
    """A user that is disabled now, on whose word, and what was chosen; None: by its policy."""

    user_id: int
    tenant_id: int
    provider: str | None
    reason: str
    by: str
    choice: LeaverChoice | None = None
    #: Its jobs are left alone so long: the user may be enabled again. 0: not at all.
    grace_seconds: int = 0


@dataclass(frozen=True)
class LeaverCounts:
    """What was done: jobs whose end was requested, units that went to an heir."""

    stopped: int = 0
    handed: int = 0


class LeaverJobs(Protocol):
    """What becomes of leavers' jobs: the seam to the package that has them."""

    def check(self, caller: Principal, choice: LeaverChoice, *, keep_seconds: int | None) -> None:
        """Refuse a choice that cannot be."""

    def choose(self, connection: sa.Connection, leaver: LeaverFacts, now_ns: int) -> LeaverChoice:
        """Return what becomes of a leaver's jobs."""

    def record(self, write: WriteTransaction, leaver: LeaverFacts) -> None:
        """Write down a leaver in the transaction that disables it."""

    def settle(self, user_ids: Collection[int]) -> LeaverCounts:
        """Do what is due, and count what was done for these users."""


def describe_move(tenant: str) -> str:
    """Describe why a person is a leaver that has jobs in an earlier tenant."""
    return f"its groups now give rights in the tenant {tenant}"
