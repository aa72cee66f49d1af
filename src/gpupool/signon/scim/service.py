"""SCIM behind one door: checks the account, and hands requests to users, groups and discovery."""

from __future__ import annotations

from gpupool.base.errors import NotScimAccount
from gpupool.model.tenant import Permission, Principal
from gpupool.signon.admission import AdmissionFacts
from gpupool.signon.leaver_facts import LeaverJobs
from gpupool.signon.scim.groups import ScimGroups
from gpupool.signon.scim.rights import PersonRights
from gpupool.signon.scim.users import ScimUsers
from gpupool.store.database import Store


class ScimService:
    """Serves SCIM. Thread-safe; the library is imported at the first request."""

    def __init__(self, store: Store, facts: AdmissionFacts, jobs: LeaverJobs) -> None:
        self.users = ScimUsers(store, PersonRights(facts, jobs))
        self.groups = ScimGroups(store, self.users)

    def admit(self, caller: Principal) -> None:
        """Refuse callers but service accounts, and make up for what a crash left.

        Raises:
            NotScimAccount: It is a person, or its token may more than this.
        """
        allowed = frozenset({Permission.SCIM})
        if not caller.is_service or (caller.scopes or allowed) != allowed:
            raise NotScimAccount(
                "SCIM takes tokens of service accounts with the scope scim alone",
                hint="gpupool user add NAME --tenant TENANT --role scim --service;  "
                "gpupool token create --user NAME --scope scim --expires 365d",
            )
        self.users.settle_due(caller)
