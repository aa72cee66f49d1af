"""An LDAP directory, by ldap3 of the extra `sso`: the only module that speaks LDAP.

A person is searched by the account of the pool, then bound as with its password. Everything a
caller gives is escaped before it goes into a filter. Referrals are not followed: they would send
the password of the pool's account to a server that no admin named.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from gpupool.base.errors import ProviderUnreachable, SignonRefused, WrongPassword
from gpupool.signon.libraries import import_library
from gpupool.signon.providers import ProviderRecord
from gpupool.signon.rules import ExternalPerson
from gpupool.wire.signon import LdapSettings

CONNECT_SECONDS: Final = 5
ANSWER_SECONDS: Final = 10
MOST_GROUPS: Final = 2000
#: Answers to a bind that blame the name or the password: constraintViolation (a lock of the
#: directory), noSuchObject, invalidDNSyntax, inappropriateAuthentication, invalidCredentials,
#: insufficientAccessRights (RFC 4511, A.2). Any other is the directory's own trouble.
_BLAMING_CODES: Final = frozenset({19, 32, 34, 48, 49, 50})
#: Before a value that is no text, as objectGUID.
_HEX: Final = "hex:"


@dataclass(frozen=True)
class DirectoryEntry:
    """A person in the directory; `attributes` by the names of the settings, as text."""

    dn: str
    attributes: Mapping[str, str]


class LdapDirectory:
    """One directory. Each call opens a connection of its own and blocks up to 15 s a step."""

    def __init__(self, provider: ProviderRecord) -> None:
        assert provider.ldap is not None
        self._provider = provider
        self._settings: LdapSettings = provider.ldap

    @property
    def issuer(self) -> str:
        """The issuer of its identities: the directory by its name in this pool."""
        return f"ldap:{self._provider.name}"

    def authenticate(
        self, user: str, password: str, check_entry: Callable[[str], None]
    ) -> ExternalPerson:
        """Return the person of a name and password, with its groups.

        Args:
            user: the name.
            password: the password.
            check_entry: is called with the DN of the person before its password is tried; raises
                where it must not be.

        Raises:
            WrongPassword: there is no such person, or the password is wrong.
            SignonRefused: the filter finds several persons, or one without identity.
            ProviderUnreachable: the directory does not answer.
        """
        # RFC 4513, 5.1.2: a bind with an empty password succeeds for everyone.
        if not password:
            raise _make_wrong_password()
        with self._connect() as connection:
            entry = self._find_person(connection, self._fill(self._settings.user_filter, user))
            if entry is None:
                raise _make_wrong_password()
            check_entry(entry.dn)
            with self._connect(entry.dn, password):
                return self._make_person(connection, entry)

    def find_subject(self, connection: Any, subject: str) -> ExternalPerson | None:
        """Return the person of an identity that the user filter still finds; None: a leaver.

        Raises ProviderUnreachable.
        """
        same = f"({self._settings.subject_attribute}={_escape_subject(subject)})"
        still = self._settings.user_filter.replace("{user}", "*")
        entry = self._find_person(connection, f"(&{same}{still})")
        return None if entry is None else self._make_person(connection, entry)

    @contextmanager
    def open(self) -> Iterator[Any]:
        """Connect as the pool's account. Raises ProviderUnreachable."""
        with self._connect() as connection:
            yield connection

    def count_persons(self) -> int:
        """Count persons up to 1,000, as a test of base and filter. Raises ProviderUnreachable."""
        with self._connect() as connection:
            everyone = self._settings.user_filter.replace("{user}", "*")
            return len(self._search(connection, self._settings.base_dn, everyone, [], 1000))

    @contextmanager
    def _connect(self, dn: str | None = None, password: str = "") -> Iterator[Any]:
        """Connect with TLS and bind, as a person or as the pool's account."""
        ldap3 = import_library("ldap3", "a login by LDAP")
        errors = import_library("ldap3.core.exceptions", "a login by LDAP")
        is_person = dn is not None
        bind_dn = dn if dn is not None else self._settings.bind_dn
        secret = password if is_person else self._provider.open_secret()
        address = urlsplit(self._settings.url)
        tls = ldap3.Tls(
            validate=ssl.CERT_REQUIRED,
            version=ssl.PROTOCOL_TLS_CLIENT,
            ca_certs_data=self._settings.ca_certificates or None,
        )
        server = ldap3.Server(
            address.hostname,
            port=address.port or (636 if address.scheme == "ldaps" else 389),
            use_ssl=address.scheme == "ldaps",
            tls=tls,
            connect_timeout=CONNECT_SECONDS,
            get_info=ldap3.NONE,
        )
        connection = ldap3.Connection(
            server,
            user=bind_dn or None,
            password=secret or None,
            auto_referrals=False,
            receive_timeout=ANSWER_SECONDS,
            read_only=True,
        )
        try:
            connection.open()
            if address.scheme == "ldap" and not connection.start_tls():
                raise self._make_unreachable(f"StartTLS: {connection.result}")
            if not connection.bind():
                reason = connection.result.get("description", "refused")
                if is_person and connection.result.get("result") in _BLAMING_CODES:
                    raise _make_wrong_password()
                if is_person:
                    raise self._make_unreachable(f"it checks no password now: {reason}")
                raise self._make_unreachable(f"it refuses {bind_dn or 'anonymous'}: {reason}")
            yield connection
        except errors.LDAPException as error:
            raise self._make_unreachable(str(error)) from None
        finally:
            _close(connection, errors)

    def _find_person(self, connection: Any, condition: str) -> DirectoryEntry | None:
        wanted = [self._settings.name_attribute, self._settings.subject_attribute]
        found = self._search(connection, self._settings.base_dn, condition, wanted, 2)
        if len(found) > 1:
            raise SignonRefused(
                f"the filter of {self._provider.name} finds several persons of that name",
                hint="an admin makes it narrower: gpupool sso set NAME --user-filter FILTER",
            )
        return found[0] if found else None

    def _make_person(self, connection: Any, entry: DirectoryEntry) -> ExternalPerson:
        subject = entry.attributes.get(self._settings.subject_attribute)
        name = entry.attributes.get(self._settings.name_attribute)
        if not subject or not name or len(subject) > 255:
            raise SignonRefused(
                f"the entry of this person lacks {self._settings.subject_attribute} or "
                f"{self._settings.name_attribute}",
                hint="an admin types: gpupool sso set NAME --subject-attribute ATTRIBUTE",
            )
        base = self._settings.group_base_dn or self._settings.base_dn
        condition = self._fill(self._settings.group_filter, name, entry.dn)
        attribute = self._settings.group_attribute
        groups = self._search(connection, base, condition, [attribute], MOST_GROUPS)
        names = {group.attributes[attribute] for group in groups if attribute in group.attributes}
        return ExternalPerson(
            provider=self._provider.name,
            issuer=self.issuer,
            subject=subject,
            name=name,
            groups=tuple(sorted(names)),
            claims={**entry.attributes, "preferred_username": name, "uid": name},
        )

    def _search(
        self, connection: Any, base: str, condition: str, attributes: list[str], most: int
    ) -> list[DirectoryEntry]:
        connection.search(
            base,
            condition,
            attributes=attributes or ["1.1"],
            size_limit=most,
            time_limit=ANSWER_SECONDS,
        )
        code = connection.result["result"]
        # 4: as many as were wanted. An error is never an empty answer: a sync would disable all.
        if code not in (0, 4):
            raise self._make_unreachable(
                f"the search below {base} fails: {connection.result['description']}"
            )
        entries = [one for one in connection.response or () if one["type"] == "searchResEntry"]
        return [DirectoryEntry(one["dn"], _read_attributes(one, attributes)) for one in entries]

    def _fill(self, template: str, user: str, dn: str = "") -> str:
        conv = import_library("ldap3.utils.conv", "a login by LDAP")
        filled = template.replace("{user}", conv.escape_filter_chars(user))
        return filled.replace("{dn}", conv.escape_filter_chars(dn))

    def _make_unreachable(self, reason: str) -> ProviderUnreachable:
        return ProviderUnreachable(
            f"the directory {self._provider.name} at {self._settings.url}: {reason[:300]}",
            hint=f"an admin types: gpupool sso test {self._provider.name}",
        )


def _read_attributes(entry: Mapping[str, Any], wanted: list[str]) -> dict[str, str]:
    """Read the first value of each attribute; servers answer names in a case of their own."""
    by_name = {name.lower(): values for name, values in entry["raw_attributes"].items()}
    read = {}
    for name in wanted:
        values = by_name.get(name.lower())
        if values:
            read[name] = _read_text(values[0])
    return read


def _read_text(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return _HEX + value.hex()
    return text if text.isprintable() else _HEX + value.hex()


def _escape_subject(subject: str) -> str:
    """Return the subject as a filter takes it: every byte escaped (RFC 4515, 3)."""
    hexadecimal = subject.startswith(_HEX)
    value = bytes.fromhex(subject.removeprefix(_HEX)) if hexadecimal else subject.encode()
    return "".join(f"\\{byte:02x}" for byte in value)


def _close(connection: Any, errors: Any) -> None:
    try:
        connection.unbind()
    except errors.LDAPException:
        # The connection was never open, or broke: there is nothing to say goodbye to.
        return


def _make_wrong_password() -> WrongPassword:
    return WrongPassword(
        "user, password or code is wrong", hint="the password is that of the directory"
    )
