"""Guesses at a directory through the pool are slowed down, name by name."""

from __future__ import annotations

import pytest

from gpupool.base.errors import LoginLocked, UnknownProvider, WrongPassword
from gpupool.signon.ldap.directory import LdapDirectory
from gpupool.wire.signon import PasswordLoginIn, ProviderIn
from tests.support.identity_provider import IdentityProvider
from tests.unit.signon.conftest import Door

LDAP = {"url": "ldaps://127.0.0.1:1", "base_dn": "dc=example"}


def guess(door: Door, user: str) -> None:
    body = PasswordLoginIn(user=user, password="a guess", provider="staff")
    door.signon.open_token(body)


def test_five_guesses_lock_a_name_and_no_other(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_directory: LdapDirectory, _user: str, _password: str) -> None:
        raise WrongPassword("wrong")

    # What a real directory answers is tested with slapd: tests/hosts/test_signon.py.
    monkeypatch.setattr(LdapDirectory, "authenticate", refuse)
    door.signon.providers.put_provider("staff", ProviderIn.model_validate({"ldap": LDAP}))
    for _ in range(5):
        with pytest.raises(WrongPassword):
            guess(door, "alice")
    with pytest.raises(LoginLocked, match="locked for 30 s"):
        guess(door, "Alice")
    with pytest.raises(WrongPassword):
        guess(door, "bob")
    door.sleep(31)
    with pytest.raises(WrongPassword):
        guess(door, "alice")


def test_a_password_for_an_oidc_provider_is_refused(door: Door, provider: IdentityProvider) -> None:
    door.add_provider(provider, "staff")
    with pytest.raises(UnknownProvider, match="takes no password"):
        guess(door, "alice")
