"""Identity providers as their admins see them. A secret goes in and never comes out. Thread-safe."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import sqlalchemy as sa

from gpupool.base.errors import BadOption, StillInUse, UnknownProvider
from gpupool.base.ids import check_name
from gpupool.signon import tables
from gpupool.signon.addresses import (
    check_certificates,
    check_directory_address,
    check_web_address,
)
from gpupool.store.database import Store
from gpupool.store.secrets.vault import SecretVault
from gpupool.wire.signon import (
    LdapSettings,
    LoginWayOut,
    OidcSettings,
    ProviderIn,
    ProviderOut,
)

#: A provider of that name would stand for local accounts in `--provider local`.
LOCAL: Final = "local"


@dataclass(frozen=True)
class ProviderRecord:
    """A provider as the server uses it; exactly one of `oidc` and `ldap` is there.

    Its secret is decrypted where it is needed: a missing key must not hide the provider.
    """

    id: int
    name: str
    oidc: OidcSettings | None
    ldap: LdapSettings | None
    created_ns: int
    encrypted: str = field(repr=False)
    secrets: SecretVault = field(repr=False)

    def open_secret(self) -> str:
        """Return the secret; empty: none. Raises what `SecretVault.decrypt` does."""
        return self.secrets.decrypt(tables.providers.c.secret, self.name, self.encrypted)

    @property
    def can_browse(self) -> bool:
        return self.oidc is not None and self.oidc.pool_url is not None


class ProviderService:
    """Providers by name."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._secrets = store.secrets

    def list_providers(self) -> list[ProviderOut]:
        """List the providers by name, without their secrets."""
        return [_provider_out(one) for one in self.read_all()]

    def get_provider(self, name: str) -> ProviderOut:
        """Return a provider without its secret. Raises UnknownProvider."""
        return _provider_out(self.read_one(name))

    def put_provider(self, name: str, body: ProviderIn) -> ProviderOut:
        """Add a provider, or replace the one of that name.

        Raises:
            BadOption: not exactly one kind is given, an address cannot be, or the issuer of a
                provider with known persons would change.
        """
        check_name(name, "provider name")
        kind, settings = _choose_settings(body)
        with self._store.write() as write:
            same = tables.providers.c.name == name
            old = write.execute(sa.select(tables.providers).where(same)).one_or_none()
            values = {"kind": kind, "settings": settings.model_dump()}
            if body.secret is not None or old is None:
                column = tables.providers.c.secret
                secret = self._secrets.encrypt(write, column, name, body.secret or "")
                values["secret"] = secret
            if old is None:
                if name == LOCAL:
                    raise BadOption(
                        f"{LOCAL} stands for local accounts: no provider can have this name",
                        hint="give another name, as corp",
                    )
                write.insert(tables.providers, name=name, created_ns=write.now_ns, **values)
            else:
                _refuse_other_issuer(write.connection, _read_record(old, self._secrets), settings)
                write.execute(tables.providers.update().where(same).values(**values))
            row = write.execute(sa.select(tables.providers).where(same)).one()
            out = _provider_out(_read_record(row, self._secrets))
            write.event("signon.provider_changed", name, data={"kind": kind})
            write.announce("signon")
            write.answer(200, out.model_dump(mode="json"))
        return out

    def delete_provider(self, name: str) -> None:
        """Delete a provider; its persons stay users and cannot log in by it.

        Raises:
            UnknownProvider: there is none of that name.
            StillInUse: a rule names it.
        """
        with self._store.write() as write:
            rules = sa.select(sa.func.count()).where(tables.rules.c.provider == name)
            count = write.execute(rules).scalar_one()
            if count:
                raise StillInUse(
                    f"{count} {'rule names' if count == 1 else 'rules name'} the provider {name}",
                    hint="gpupool sso rules   shows them; gpupool sso rule-remove NUMBER",
                    rules=count,
                )
            gone = write.execute(tables.providers.delete().where(tables.providers.c.name == name))
            if gone.rowcount == 0:
                raise _make_unknown(name)
            write.event("signon.provider_deleted", name)
            write.announce("signon")
            write.answer(204, None)

    def read_one(self, name: str) -> ProviderRecord:
        """Read a provider with its secret. Raises UnknownProvider."""
        with self._store.read() as connection:
            query = sa.select(tables.providers).where(tables.providers.c.name == name)
            row = connection.execute(query).one_or_none()
        if row is None:
            raise _make_unknown(name)
        return _read_record(row, self._secrets)

    def read_all(self) -> list[ProviderRecord]:
        """Read every provider with its secret, by name."""
        query = sa.select(tables.providers).order_by(tables.providers.c.name)
        with self._store.read() as connection:
            return [_read_record(row, self._secrets) for row in connection.execute(query)]

    def choose_oidc(self, name: str | None) -> ProviderRecord:
        """Return the OIDC provider of that name, or the only one there is.

        Raises:
            UnknownProvider: there is none, or there are several and none is named.
        """
        if name is not None:
            found = self.read_one(name)
            if found.oidc is None:
                raise UnknownProvider(
                    f"{name} is an LDAP directory, which takes a password",
                    hint=f"gpupool login URL --user YOU --provider {name}",
                )
            return found
        known = [one for one in self.read_all() if one.oidc is not None]
        if len(known) == 1:
            return known[0]
        names = ", ".join(one.name for one in known) or "none"
        raise UnknownProvider(
            f"the pool has {len(known)} OIDC providers: {names}",
            hint="name one: --sso NAME" if known else "an admin adds one: gpupool sso add oidc",
        )

    def list_ways(self, *, has_passwords: bool) -> list[LoginWayOut]:
        """List the ways to log in that a page may offer to a stranger."""
        ways = [
            LoginWayOut(
                name=one.name,
                kind="ldap" if one.oidc is None else "oidc",
                browser=one.can_browse,
                device=one.oidc is not None,
                password=one.ldap is not None,
            )
            for one in self.read_all()
        ]
        if has_passwords:
            local = LoginWayOut(
                name=LOCAL, kind="local", browser=False, device=False, password=True
            )
            ways.append(local)
        return ways


def _choose_settings(body: ProviderIn) -> tuple[str, OidcSettings | LdapSettings]:
    if body.oidc is not None and body.ldap is None:
        check_certificates(body.oidc.ca_certificates)
        check_web_address(body.oidc.issuer, "the issuer")
        if body.oidc.pool_url is not None:
            check_web_address(body.oidc.pool_url, "the pool's address")
        return "oidc", body.oidc
    if body.ldap is not None and body.oidc is None:
        check_certificates(body.ldap.ca_certificates)
        check_directory_address(body.ldap.url)
        if "{user}" not in body.ldap.user_filter:
            raise BadOption(
                f"user filter {body.ldap.user_filter!r} finds every person: it lacks {{user}}",
                hint="(uid={user}), or (sAMAccountName={user}) in Active Directory",
            )
        return "ldap", body.ldap
    raise BadOption("a provider has one kind", hint="give exactly one of oidc and ldap")


def _refuse_other_issuer(
    connection: sa.Connection, old: ProviderRecord, settings: OidcSettings | LdapSettings
) -> None:
    """Refuse to change the issuer under persons: their identities would be other persons'."""
    persons = sa.select(sa.func.count()).where(tables.identities.c.provider == old.name)
    count = connection.execute(persons).scalar_one()
    before = old.oidc.issuer if old.oidc is not None else "ldap"
    after = settings.issuer if isinstance(settings, OidcSettings) else "ldap"
    if count and before != after:
        raise BadOption(
            f"{count} persons are known by {old.name} with the issuer {before}",
            hint="add the new issuer under another name",
            persons=count,
        )


def _read_record(row: sa.Row[Any], secrets: SecretVault) -> ProviderRecord:
    is_oidc = row.kind == "oidc"
    return ProviderRecord(
        row.id,
        row.name,
        OidcSettings.model_validate(row.settings) if is_oidc else None,
        None if is_oidc else LdapSettings.model_validate(row.settings),
        row.created_ns,
        row.secret,
        secrets,
    )


def _provider_out(record: ProviderRecord) -> ProviderOut:
    return ProviderOut(
        name=record.name,
        kind="ldap" if record.oidc is None else "oidc",
        oidc=record.oidc,
        ldap=record.ldap,
        has_secret=bool(record.encrypted),
        created_ns=record.created_ns,
    )


def _make_unknown(name: str) -> UnknownProvider:
    return UnknownProvider(f"no identity provider {name[:80]!r}", hint="gpupool sso list")
