"""What keeps a unit from being handed over, in words for the admin. Writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpupool.allocations.handover.units import OwnedUnit
from gpupool.billing.budgets.standing import BudgetStanding


@dataclass(frozen=True)
class HeirFacts:
    """What a user can take over, of a plan.

    Attributes:
        uids: Unix accounts that the user is or runs as.
        takes_accounts: Whether it may take jobs that run as other accounts: an admin of the pool
            says so, or the pool runs every job as one account.
        is_pool_admin: Whether it may do as root on the pool's machine anyway.
        spent: The user's own budgets that are spent.
        room: Entries of the queue that it may still have; None: no limit.
    """

    user_id: int
    name: str
    tenant_id: int
    uids: frozenset[int]
    takes_accounts: bool
    is_pool_admin: bool
    spent: Sequence[BudgetStanding]
    room: int | None


def find_refusal(unit: OwnedUnit, heir: HeirFacts, waiting: int) -> str | None:
    """Find why a unit stays with its owner; None: it can be handed over.

    Args:
        unit: What is to be handed over.
        heir: The user that is to get it.
        waiting: Entries of the queue that the heir gets before it.
    """
    if unit.tenant_id != heir.tenant_id:
        return f"it belongs to the tenant {unit.tenant}, and {heir.name} does not"
    if unit.is_attached:
        return "it is attached to a terminal, and ends with it"
    if unit.is_incomplete:
        return "its members are still being written; hand it over in a minute"
    if unit.lacks_account:
        return "its owner has no Unix account any more, so it starts no job"
    account = unit.account
    if account is not None and account.uid not in heir.uids and not heir.takes_accounts:
        return (
            f"it runs as the Unix account {account.name}: only an admin of the pool hands it over"
        )
    if account is not None and account.uid == 0 and not (0 in heir.uids or heir.is_pool_admin):
        return "it runs as root: only an admin of the pool takes it over"
    if unit.jobs and (spent := _find_spent(unit, heir)) is not None:
        return f"the budget {spent.budget.id} of {heir.name} is spent"
    if heir.room is not None and unit.waiting and waiting + unit.waiting > heir.room:
        entries = "1 entry" if unit.waiting == 1 else f"{unit.waiting} entries"
        return f"it adds {entries} to the queue, and {heir.name} may have {heir.room} more"
    return None


def _find_spent(unit: OwnedUnit, heir: HeirFacts) -> BudgetStanding | None:
    for standing in heir.spent:
        if standing.budget.owner.project_id in (None, unit.project_id):
            return standing
    return None
