"""The Unix account that the jobs of a schedule or a service run as.

What was added as an account of its owner follows the owner's account. A schedule that was handed
over keeps the account that it has, since its command is the earlier owner's (decision 0118), and so
does what an account added with the token of another user.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import sqlalchemy as sa

from gpupool.model.tenant import Principal
from gpupool.tenancy.service import TenancyService
from gpupool.tenancy.tables import users
from gpupool.wire.fleet import RunAs

#: Beside the account in its column: the column of the owner's row that it came from.
_FOLLOWS: Final = "follows"


@dataclass(frozen=True)
class OwnerAccounts:
    """The owner of a schedule or a service, and the Unix accounts that it is and runs as now."""

    owner: Principal
    unix_uid: int | None
    run_as_uid: int | None


def describe_account(
    connection: sa.Connection, principal: Principal, run_as: RunAs | None
) -> dict[str, Any] | None:
    """Describe an account for the row of what submits, and what of its owner it follows."""
    if run_as is None:
        return None
    query = sa.select(users.c.unix_uid, users.c.run_as_uid).where(users.c.id == principal.user_id)
    owner = connection.execute(query).one()._mapping
    # Over the network the binding counts, on the pool's machine the account itself.
    columns = ("unix_uid", "run_as_uid") if principal.local else ("run_as_uid", "unix_uid")
    follows = [column for column in columns if owner[column] == run_as.uid]
    return run_as.model_dump(mode="json") | ({_FOLLOWS: follows[0]} if follows else {})


def find_account(
    tenancy: TenancyService, run_as: Mapping[str, Any] | None, accounts: OwnerAccounts
) -> dict[str, Any] | None:
    """Find what jobs run as now, of the column of what submits; None: the agent's own account.

    Raises:
        NoUnixUser: The owner has none any more, as a submission over the network says.
    """
    if run_as is None:
        return None
    recorded = {key: value for key, value in run_as.items() if key != _FOLLOWS}
    follows = run_as.get(_FOLLOWS)
    if follows is None or tenancy.identity.own_pool:
        return recorded
    # The groups of an account on the machine are known from its process alone.
    if follows == "unix_uid" and accounts.unix_uid == run_as["uid"]:
        return recorded
    uid = accounts.run_as_uid
    if follows == "unix_uid" and accounts.unix_uid is not None:
        uid = accounts.unix_uid
    account = None if uid is None else tenancy.identity.find_account(uid)
    return tenancy.run_as(replace(accounts.owner, unix=account), None).model_dump(mode="json")
