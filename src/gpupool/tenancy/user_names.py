"""Names of users: free ones for those that join by themselves, and those that were given before."""

from __future__ import annotations

import re
from itertools import chain

import sqlalchemy as sa

from gpupool.base.errors import NameTaken
from gpupool.base.ids import check_name, is_id
from gpupool.model.tenant import Permission, Principal, UnixIdentity
from gpupool.store.database import WriteTransaction
from gpupool.tenancy.tables import users

#: Events after which a name is no user's, or maybe that of another person.
_ENDS = frozenset({"user.deleted", "user.created"})


def free_user_name(connection: sa.Connection, account: UnixIdentity | None, uid: int) -> str:
    """Choose a user name for a Unix account: its own where it is possible and free."""
    wanted = clean_name(account.name if account else f"uid-{uid}")
    numbered = (f"uid-{uid}-{number}" for number in range(2, 100))
    candidates = chain((wanted or f"uid-{uid}", f"{wanted or 'uid'}-{uid}"), numbered)
    found = next((name for name in candidates if _is_free(connection, name)), None)
    if found is None:
        raise NameTaken(
            f"no user name is left for uid {uid}",
            hint="an admin can bind it: gpupool user set NAME --unix-user",
        )
    return check_name(found, "user name")


def free_person_name(connection: sa.Connection, wanted: str) -> str:
    """Choose a user name near the wanted one: itself, else with a number behind it."""
    base = clean_name(wanted.partition("@")[0]) or "person"
    base = f"user-{base}"[:40] if is_id(base) else base
    candidates = chain((base,), (f"{base}-{number}" for number in range(2, 1000)))
    found = next((name for name in candidates if _is_free(connection, name)), None)
    if found is None:
        raise NameTaken(f"no user name like {base} is left", hint="gpupool user list")
    return check_name(found, "user name")


def refuse_foreign_name(write: WriteTransaction, caller: Principal, name: str) -> None:
    """Refuse that a tenant's admin brings a deleted user of another tenant back. Raises NameTaken."""
    gone = sa.and_(users.c.name == name, users.c.retired_ns.is_not(None))
    foreign = sa.and_(gone, users.c.tenant_id != caller.tenant_id)
    is_foreign = write.execute(sa.select(users.c.id).where(foreign)).first() is not None
    if is_foreign and not caller.has_permission(Permission.MANAGE_POOL):
        raise NameTaken(
            f"there was a user {name!r}, which was deleted",
            hint="give another name; only an admin of the pool gives this one again",
        )


def clean_name(text: str) -> str:
    """Replace what no name here has, as the sign of user@EXAMPLE.ORG; empty if nothing is left."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)[:40].strip("._-")


def _is_free(connection: sa.Connection, name: str) -> bool:
    return connection.execute(sa.select(users.c.id).where(users.c.name == name)).first() is None


def find_ended_users(write: WriteTransaction) -> list[int]:
    """Find the users that this transaction deletes or brings back: what acts for them is to go.

    A user that is brought back under its name may be another person.
    """
    names = [event["subject"] for event in write.list_events() if event["kind"] in _ENDS]
    if not names:
        return []
    return list(write.execute(sa.select(users.c.id).where(users.c.name.in_(names))).scalars())
