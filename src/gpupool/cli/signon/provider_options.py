"""Options of `gpupool sso add` and `set`: the settings of a provider, and its secret."""

from __future__ import annotations

import argparse
import os
from typing import Any, Final

from gpupool.base.errors import BadOption
from gpupool.terminal.parser import CommandParser

#: By kind: flag, its field of the API, whether it may be given several times, help.
_FIELDS: Final[dict[str, tuple[tuple[str, str, bool, str], ...]]] = {
    "oidc": (
        ("--issuer", "issuer", False, "OIDC: the issuer, letter by letter"),
        ("--client-id", "client_id", False, "OIDC: the client registered for this pool"),
        ("--scope", "scopes", True, "OIDC: scopes to ask for (default: openid profile email)"),
        ("--groups-claim", "groups_claim", False, "OIDC: claim with the groups (default: groups)"),
        ("--name-claim", "name_claim", False, "OIDC: the name (default: preferred_username)"),
        ("--algorithm", "algorithms", True, "OIDC: of signatures (default: RS256 ES256)"),
        ("--pool-url", "pool_url", False, "OIDC: where browsers reach this pool"),
    ),
    "ldap": (
        ("--url", "url", False, "LDAP: ldaps://HOST, or ldap://HOST with StartTLS"),
        ("--bind-dn", "bind_dn", False, "LDAP: account that searches (default: anonymous)"),
        ("--base-dn", "base_dn", False, "LDAP: below which persons are"),
        ("--user-filter", "user_filter", False, "LDAP: finds a person (default: (uid={user}))"),
        ("--name-attribute", "name_attribute", False, "LDAP: the name (default: uid)"),
        (
            "--subject-attribute",
            "subject_attribute",
            False,
            "LDAP: never reassigned (default: entryUUID; objectGUID in Active Directory)",
        ),
        ("--group-base-dn", "group_base_dn", False, "LDAP: below which groups are"),
        (
            "--group-filter",
            "group_filter",
            False,
            "LDAP: a person's groups (default: (member={dn}))",
        ),
        ("--group-attribute", "group_attribute", False, "LDAP: a group's name (default: cn)"),
    ),
}
_REQUIRED: Final = {"oidc": ("issuer", "client_id"), "ldap": ("url", "base_dn")}


def add_provider_options(parser: CommandParser) -> None:
    """Add the settings of every kind; which belong to the provider is checked later."""
    for fields in _FIELDS.values():
        for flag, field, is_list, text in fields:
            action = "append" if is_list else "store"
            parser.add_argument(flag, dest=field, action=action, metavar="VALUE", help=text)
    parser.add_argument("--ca-file", metavar="FILE", help="authorities to trust, as PEM")
    parser.add_argument(
        "--secret-file", metavar="FILE", help="secret of the client, or of the bind account"
    )
    parser.add_argument(
        "--secret-env", metavar="VARIABLE", help="environment variable with that secret"
    )


def read_settings(options: argparse.Namespace, kind: str) -> dict[str, Any]:
    """Return the settings that were given, by the fields of the API.

    Raises:
        BadOption: one is of the other kind, or `add` lacks one.
    """
    settings: dict[str, Any] = {}
    for other, fields in _FIELDS.items():
        for flag, field, _, _ in fields:
            value = getattr(options, field)
            if value is None:
                continue
            if other != kind:
                raise BadOption(
                    f"{flag} is a setting of {other}, and {options.provider} is {kind}",
                    hint="gpupool sso add --help",
                )
            settings[field] = value
    if options.verb == "add":
        _require(settings, kind)
    if options.ca_file is not None:
        settings["ca_certificates"] = _read_file(options.ca_file)
    return settings


def read_secret(options: argparse.Namespace) -> str | None:
    """Return the secret from its file or variable; None: none was given, or the old one stays.

    Raises:
        BadOption: it cannot be read.
    """
    if options.secret_file is not None and options.secret_env is not None:
        raise BadOption("--secret-file and --secret-env are two places for one secret")
    if options.secret_file is not None:
        return _read_file(options.secret_file).strip("\r\n")
    if options.secret_env is None:
        return None
    value = os.environ.get(options.secret_env)
    if not value:
        raise BadOption(
            f"the environment has no variable {options.secret_env}",
            hint="--secret-file FILE reads the secret from a file",
        )
    return value


def _require(settings: dict[str, Any], kind: str) -> None:
    for flag, field, _, _ in _FIELDS[kind]:
        if field in _REQUIRED[kind] and field not in settings:
            raise BadOption(f"a provider of the kind {kind} needs {flag}")


def _read_file(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as opened:
            return opened.read()
    except (OSError, UnicodeDecodeError) as error:
        raise BadOption(f"cannot read {path}: {error}") from None
