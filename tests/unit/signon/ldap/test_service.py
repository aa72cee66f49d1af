"""Guesses at a directory through the pool are slowed down, name by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gpupool.base.errors import BadOption, LoginLocked, UnknownProvider, WrongPassword
from gpupool.signon.ldap.directory import DirectoryEntry, LdapDirectory
from gpupool.wire.signon import PasswordLoginIn, ProviderIn
from tests.support.identity_provider import IdentityProvider
from tests.unit.signon.conftest import Door

LDAP = {"url": "ldaps://127.0.0.1:1", "base_dn": "dc=example"}


def guess(door: Door, user: str) -> None:
    body = PasswordLoginIn(user=user, password="a guess", provider="staff")
    door.signon.open_token(body)


def test_five_guesses_lock_a_name_and_no_other(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_directory: LdapDirectory, _user: str, *_more: object) -> None:
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


def test_five_guesses_lock_a_person_by_whatever_text_it_is_found(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def connect(_directory: LdapDirectory, dn: str | None = None, _word: str = "") -> Iterator[str]:
        if dn is not None:
            raise WrongPassword("wrong")
        yield "a connection"

    def find(_directory: LdapDirectory, _connection: str, condition: str) -> DirectoryEntry:
        # As slapd does: spaces around a value are none (RFC 4518, 2.6.1).
        name = condition.removeprefix("(uid=").removesuffix(")").strip()
        return DirectoryEntry(f"uid={name},dc=example", {})

    monkeypatch.setattr(LdapDirectory, "_connect", connect)
    monkeypatch.setattr(LdapDirectory, "_find_person", find)
    door.signon.providers.put_provider("staff", ProviderIn.model_validate({"ldap": LDAP}))
    for spaces in range(5):
        with pytest.raises(WrongPassword):
            guess(door, "alice" + " " * spaces)
    with pytest.raises(LoginLocked, match="locked for 30 s"):
        guess(door, "  alice")
    with pytest.raises(WrongPassword):
        guess(door, "bob")


def test_a_password_for_an_oidc_provider_is_refused(door: Door, provider: IdentityProvider) -> None:
    door.add_provider(provider, "staff")
    with pytest.raises(UnknownProvider, match="takes no password"):
        guess(door, "alice")


def test_no_provider_has_the_name_of_local_accounts(door: Door) -> None:
    with pytest.raises(BadOption, match="stands for local accounts"):
        door.signon.providers.put_provider("local", ProviderIn.model_validate({"ldap": LDAP}))
    assert door.signon.list_ways() == []
