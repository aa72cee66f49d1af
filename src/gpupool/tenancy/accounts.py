"""The machine's Unix accounts, as the account database names them.

The only reader of pwd and grp; knows no tenants. A lookup may block on a directory
service, so it is made when a caller is first seen, not on every request.
"""

from __future__ import annotations

import os
import pwd

from gpupool.base.errors import BadName
from gpupool.model.tenant import UnixIdentity


class Accounts:
    """Looks up accounts; tests give one with the same three methods."""

    def by_uid(self, uid: int) -> UnixIdentity | None:
        try:
            found = pwd.getpwuid(uid)
        except (KeyError, OverflowError):
            return None
        return UnixIdentity(found.pw_uid, found.pw_gid, found.pw_name)

    def by_name(self, name: str) -> UnixIdentity | None:
        """The account of that name; digits are a uid, which may have no name."""
        if name.isascii() and name.isdigit():
            return self.by_uid(int(name))
        try:
            found = pwd.getpwnam(name)
        except (KeyError, ValueError):  # ValueError: a NUL in the name
            return None
        return UnixIdentity(found.pw_uid, found.pw_gid, found.pw_name)

    def groups(self, account: UnixIdentity) -> list[int]:
        """Every group a login of this account would have, sorted."""
        return sorted(set(os.getgrouplist(account.name, account.gid)))


def wanted_account(accounts: Accounts, name: str) -> UnixIdentity:
    """The account of that name. Raises BadName if this machine has none."""
    account = accounts.by_name(name)
    if account is None:
        raise BadName(
            f"this machine has no Unix account {name[:80]!r}", hint="getent passwd lists the accounts there are"
        )
    return account
