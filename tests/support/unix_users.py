"""Users of a house with Unix accounts of this machine, over the network and on it."""

from __future__ import annotations

import os
import pwd
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.store.tables import jobs, launches
from gpupool.model.tenant import Principal
from gpupool.tenancy.access import PeerProcess
from gpupool.wire.people import TokenIn, UserIn, UserPatch
from tests.support.house import House

#: Groups that a process has, and that no account database says.
GROUPS = (1, 4711)


class UnixUsers:
    """What an admin does to users and their accounts."""

    def __init__(self, house: House) -> None:
        self.house = house

    def user(self, name: str, **more: Any) -> Principal:
        """Make a user; return it as it comes over the network."""
        self.house.tenancy.users.create(self.house.admin, UserIn(name=name, **more))
        return self.bearer(name)

    def bearer(self, name: str, peer: PeerProcess | None = None) -> Principal:
        made = self.house.tenancy.tokens.create(self.house.admin, TokenIn(user=name))
        return self.house.tenancy.principal_for_token(made.token or "", peer)

    def bind(self, name: str, **accounts: str | None) -> None:
        patch = UserPatch.model_validate(accounts)
        self.house.tenancy.users.change(self.house.admin, name, patch)

    def read_account(self, public_id: str) -> dict[str, Any]:
        """Read what a job runs as."""
        job = sa.select(jobs.c.id).where(jobs.c.public_id == public_id).scalar_subquery()
        with self.house.store.read() as connection:
            query = sa.select(launches.c.spec).where(launches.c.job_id == job)
            found: dict[str, Any] = connection.execute(query).scalar_one()["run_as"]
        return found


def make_peer(account: str) -> PeerProcess:
    found = pwd.getpwnam(account)
    return PeerProcess(os.getpid(), found.pw_uid, found.pw_gid, GROUPS)
