"""Ends the identities of deleted users that come back under their name, maybe as another person.

Writes in the caller's transaction. Why: docs/decisions/0102-sign-on.md.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from gpupool.signon import tables
from gpupool.signon.scim.tables import scim_users
from gpupool.store.database import WriteTransaction
from gpupool.tenancy.tables import users

#: In the data of `user.created`: a login made the user, under a name that no user ever had.
_MADE_BY_LOGIN: Final = "provider"


def end_former_links(write: WriteTransaction) -> None:
    """End the identities of users that this transaction brings back under their name. Idempotent.

    Until then the identity of a deleted user stays, so that its logins are refused.
    """
    names = [
        event["subject"]
        for event in write.list_events()
        if event["kind"] == "user.created" and _MADE_BY_LOGIN not in event["data"]
    ]
    if not names:
        return
    identities = tables.identities
    theirs = sa.select(users.c.id).where(users.c.name.in_(names))
    query = sa.select(identities.c.id).where(identities.c.user_id.in_(theirs))
    ids = write.execute(query).scalars().all()
    if not ids:
        return
    mine = scim_users.c.identity_id.in_(ids)
    write.execute(scim_users.update().where(mine).values(identity_id=None))
    write.execute(tables.logins.delete().where(tables.logins.c.identity_id.in_(ids)))
    write.execute(identities.delete().where(identities.c.id.in_(ids)))
