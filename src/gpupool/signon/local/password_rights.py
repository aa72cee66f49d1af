"""Which caller may change which user's password or authenticator."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import NoPermission
from gpupool.model.tenant import Permission, Principal
from gpupool.tenancy.users import check_may_manage, check_may_stand_for

Row = sa.Row[Any]


def check_may_act_for(caller: Principal, user: Row) -> None:
    """Refuse a caller that neither is the user nor manages it.

    Raises:
        NoPermission: the user is not the caller's to manage.
        TokenOfAnAccount: the user has a Unix account, and the caller is no pool admin.
    """
    if user.id != caller.user_id:
        check_may_manage(caller, user)
        check_may_stand_for(caller, user)


def refuse_limited(caller: Principal, user: Row) -> None:
    """Refuse that a limited token gives a user a login without its limits. Raises NoPermission."""
    if caller.scopes is None:
        return
    limits = ", ".join(sorted(caller.scopes))
    raise NoPermission(
        f"the caller's token is limited to {limits}, and a login by the password of {user.name} "
        "would not be",
        hint="log in without a limited token, or type it on the pool's machine",
    )


def refuse_own_removal(caller: Principal, user: Row, *, is_totp: bool) -> None:
    """Refuse that a token, which may be stolen, removes what its own user logs in with.

    Raises NoPermission.
    """
    is_own = user.id == caller.user_id and not caller.has_peer_credentials
    if is_own and not caller.has_permission(Permission.MANAGE_TENANT):
        raise NoPermission(
            f"over the network only an admin removes {'an authenticator' if is_totp else 'a password'}",
            hint=f"an admin types: gpupool user {'totp' if is_totp else 'password'} {user.name} "
            "--remove",
        )
