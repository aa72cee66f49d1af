"""Identity providers, rules, passwords, sessions, leavers and handovers in the SDK.

from gpupool.client import Pool

with Pool() as pool:
    done = pool.sign_on.hand_over("alice", "bob", dry_run=True)
    print(done.jobs, [unit.name for unit in done.units if unit.refusal])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpupool.client.messages import path_segment
from gpupool.client.paging import iterate_items
from gpupool.wire.answers import read_answer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpupool.client.transport import Api
    from gpupool.wire.leavers.handover import HandoverOut
    from gpupool.wire.leavers.policies import LeaverPolicyOut, LeaverRowOut
    from gpupool.wire.sessions import SessionRowOut
    from gpupool.wire.signon import (
        LoginExplainOut,
        ProviderOut,
        ProviderTestOut,
        RuleIn,
        RulesOut,
        SyncOut,
        TotpOut,
    )

#: Seconds: a sync asks a directory for each person, a handover is a transaction for each job.
_TIMEOUT: Final = 600.0


class SignOn:
    """What an admin does about logins and leavers, and what a user does about its password."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def list_providers(self) -> list[ProviderOut]:
        """List the identity providers by name, without their secrets."""
        from gpupool.wire.signon import ProviderOut

        found = self._api.request("GET", "sso/providers")
        return [read_answer(ProviderOut, one) for one in found]

    def read_provider(self, provider: str) -> ProviderOut:
        """Read one identity provider, without its secret. Raises NotFound."""
        from gpupool.wire.signon import ProviderOut

        return read_answer(ProviderOut, self._api.request("GET", _provider_path(provider)))

    def set_provider(self, provider: str, **fields: Any) -> ProviderOut:
        """Set an identity provider; `fields` are those of ProviderIn: oidc or ldap, and secret."""
        from gpupool.wire.signon import ProviderIn, ProviderOut

        body = ProviderIn.model_validate(fields).model_dump()
        return read_answer(ProviderOut, self._api.request("PUT", _provider_path(provider), body))

    def delete_provider(self, provider: str) -> None:
        """Delete an identity provider: its users log in by it no more. Raises NotFound."""
        self._api.request("DELETE", _provider_path(provider))

    def check_provider(self, provider: str) -> ProviderTestOut:
        """Ask an identity provider what a login would ask, step by step. Raises NotFound."""
        from gpupool.wire.signon import ProviderTestOut

        path = f"{_provider_path(provider)}/test"
        return read_answer(ProviderTestOut, self._api.request("POST", path, {}, timeout=60))

    def explain(
        self, groups: Sequence[str], *, user: str | None = None, provider: str | None = None
    ) -> LoginExplainOut:
        """Say what a login with these groups would get, by which rule. Changes nothing."""
        from gpupool.wire.signon import LoginExplainOut

        body = {"groups": list(groups), "user": user, "provider": provider}
        return read_answer(LoginExplainOut, self._api.request("POST", "sso/explain", body))

    def read_rules(self) -> RulesOut:
        """Read the rules from groups to rights, in order."""
        from gpupool.wire.signon import RulesOut

        return read_answer(RulesOut, self._api.request("GET", "sso/rules"))

    def set_rules(self, rules: Sequence[RuleIn]) -> RulesOut:
        """Set all rules; they count from the next login on. Raises StaleGeneration.

        They are set only where `read_rules` was the last request and they have not changed since.
        """
        from gpupool.wire.signon import RulesOut

        body = {"rules": [rule.model_dump() for rule in rules]}
        return read_answer(
            RulesOut, self._api.request("PUT", "sso/rules", body, if_match=self._api.etag)
        )

    def sync(self, provider: str, **options: Any) -> SyncOut:
        """Disable the users that a provider no longer has; `options` are fields of SyncIn."""
        from gpupool.wire.signon import SyncIn, SyncOut

        body = SyncIn(provider=provider, **options).model_dump()
        return read_answer(SyncOut, self._api.request("POST", "sso/sync", body, timeout=_TIMEOUT))

    def list_sessions(self, user: str | None = None) -> Iterator[SessionRowOut]:
        """List the logins of browsers that have not ended, of all users or of one."""
        from gpupool.wire.sessions import SessionRowOut

        for row in iterate_items(self._api, "sessions", {"user": user}):
            yield read_answer(SessionRowOut, row)

    def end_session(self, session: str) -> None:
        """End the login of a browser at once. Raises NotFound."""
        self._api.request("DELETE", f"sessions/{path_segment(session)}")

    def hand_over(
        self, user: str, heir: str, *, only: Sequence[str] | None = None, dry_run: bool = False
    ) -> HandoverOut:
        """Give the jobs, schedules and reservations of a user to another one. Idempotent.

        Raises:
            NotFound: there is no such user, or it owns no unit of a name in `only`.
            HandoverRefused: the heir cannot take jobs over.
        """
        from gpupool.wire.leavers.handover import HandoverOut

        body = {"to": heir, "only": None if only is None else list(only), "dry_run": dry_run}
        path = f"users/{path_segment(user)}/handover"
        return read_answer(HandoverOut, self._api.request("POST", path, body, timeout=_TIMEOUT))

    def list_leavers(self, *, every: bool = False) -> list[LeaverRowOut]:
        """List the users that left and whose jobs are not settled; `every`: settled ones too."""
        from gpupool.wire.leavers.policies import LeaverRowOut

        query = {"all": "true" if every else None}
        found = self._api.request("GET", "sso/leavers", query=query)["items"]
        return [read_answer(LeaverRowOut, one) for one in found]

    def list_policies(self) -> list[LeaverPolicyOut]:
        """List what becomes of leavers' jobs, by tenant and provider."""
        from gpupool.wire.leavers.policies import LeaverPolicyOut

        found = self._api.request("GET", "sso/leaver-policies")
        return [read_answer(LeaverPolicyOut, one) for one in found]

    def set_policy(self, **fields: Any) -> LeaverPolicyOut:
        """Set what becomes of leavers' jobs; `fields` are those of LeaverPolicyIn."""
        from gpupool.wire.leavers.policies import LeaverPolicyIn, LeaverPolicyOut

        body = LeaverPolicyIn.model_validate(fields).model_dump()
        return read_answer(LeaverPolicyOut, self._api.request("PUT", "sso/leaver-policies", body))

    def delete_policy(self, *, provider: str | None = None, tenant: str | None = None) -> None:
        """Delete the policy of a provider, a tenant, both or the pool; earlier leavers keep it."""
        query = {"provider": provider, "tenant": tenant}
        self._api.request("DELETE", "sso/leaver-policies", query=query)

    def set_password(self, user: str, password: str, *, current: str | None = None) -> None:
        """Set the password of a local account and end its sessions.

        Args:
            current: the password of now: for the caller's own, over TCP.
        """
        body = {"password": password, "current": current}
        self._api.request("PUT", _user_path(user, "password"), body)

    def remove_password(self, user: str) -> None:
        """Remove password and authenticator: tokens or a provider alone let the user in."""
        self._api.request("DELETE", _user_path(user, "password"))

    def begin_totp(self, user: str) -> TotpOut:
        """Make a secret for an authenticator; it counts from `confirm_totp` on."""
        from gpupool.wire.signon import TotpOut

        return read_answer(TotpOut, self._api.request("POST", _user_path(user, "totp"), {}))

    def confirm_totp(self, user: str, code: str) -> None:
        """Ask for codes of the authenticator from the next login on."""
        self._api.request("PUT", _user_path(user, "totp"), {"code": code})

    def remove_totp(self, user: str) -> None:
        """Remove the authenticator of a user, as after a lost telephone."""
        self._api.request("DELETE", _user_path(user, "totp"))


def _provider_path(provider: str) -> str:
    return f"sso/providers/{path_segment(provider)}"


def _user_path(user: str, part: str) -> str:
    return f"users/{path_segment(user)}/{part}"
