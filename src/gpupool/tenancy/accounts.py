"""The machine's Unix accounts, as the account database names them.

The only reader of pwd and grp; knows no tenants. A lookup may block on a directory
service, so it is made when a caller is first seen, not on every request.
"""

from __future__ import annotations

import os
import pwd

from gpupool.base.errors import BadName
from gpupool.model.tenant import UnixIdentity


class UnixAccounts:
    """Looks up accounts; tests give one with the same three methods."""

    def by_uid(self, uid: int) -> UnixIdentity | None:
        """Return the account of a uid; None where the machine has no name for it."""
        try:
            found = pwd.getpwuid(uid)
        # OverflowError: a uid beyond 32 bits, which a body may name.
        except (KeyError, OverflowError):
            return None
        return UnixIdentity(found.pw_uid, found.pw_gid, found.pw_name)

    def by_name(self, name: str) -> UnixIdentity | None:
        """Return the account of that name; digits are a uid, which may have no name."""
        if name.isascii() and name.isdigit():
            return self.by_uid(int(name))
        try:
            found = pwd.getpwnam(name)
        except (KeyError, ValueError):  # ValueError: a NUL in the name
            return None
        return UnixIdentity(found.pw_uid, found.pw_gid, found.pw_name)

    def groups(self, account: UnixIdentity) -> list[int]:
        """List every group that a login of this account would have, sorted."""
        # A directory service may list a group twice.
        return sorted(set(os.getgrouplist(account.name, account.gid)))


def find_account(accounts: UnixAccounts, name: str) -> UnixIdentity:
    """Return the account of that name. Raises BadName if this machine has none."""
    account = accounts.by_name(name)
    if account is None:
        raise BadName(
            f"this machine has no Unix account {name[:80]!r}",
            hint="getent passwd lists the accounts there are",
        )
    return account
