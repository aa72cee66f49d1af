"""Logins of `gpupool login` without a token: by an identity provider, or by a password."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from gpupool.base.errors import BadOption, NotLoggedIn, WrongPassword
from gpupool.client.transport import Api
from gpupool.terminal.context import print_notice


def login_by_provider(api: Api, provider: str | None) -> dict[str, Any]:
    """Log in by the device flow: show a code, wait until it is entered in a browser.

    Raises:
        NotLoggedIn: the time for it is over.
        GpupoolError: the pool or the provider refuses.
    """
    begun = api.request("POST", "sso/device", {"provider": provider})
    address = begun["verification_uri_complete"] or begun["verification_uri"]
    print_notice(f"open {address} in a browser and enter the code {begun['user_code']}")
    ends = time.monotonic() + begun["expires_seconds"]
    interval = begun["interval_seconds"]
    while time.monotonic() < ends:
        # RFC 8628 has the client ask again and again; the provider says how often.
        time.sleep(interval)
        found = api.request("POST", "sso/device/poll", {"handle": begun["handle"]})
        if found["state"] == "done":
            login: dict[str, Any] = found["login"]
            return login
        interval = found["interval_seconds"]
    raise NotLoggedIn(
        f"the code was not entered within {begun['expires_seconds']} s", hint="begin again"
    )


def login_by_password(
    api: Api, user: str, provider: str | None, password_file: str | None
) -> dict[str, Any]:
    """Log in by a local account, or by a password of an LDAP directory.

    Raises:
        BadOption: the password cannot be read.
        GpupoolError: the pool refuses.
    """
    body = {"user": user, "provider": provider, "password": read_password(password_file)}
    try:
        return _ask(api, body)
    except WrongPassword:
        # The pool does not say whether a code is needed, so a person at a terminal is asked.
        code = _read_code()
        if not code:
            raise
    return _ask(api, body | {"totp": code})


def read_password(file: str | None, prompt: str = "password: ") -> str:
    """Read a password from a file, a pipe, or the terminal without echo. Raises BadOption."""
    if file is not None:
        try:
            with open(file, encoding="utf-8") as opened:
                password = opened.readline().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise BadOption(f"cannot read the password file {file}: {error}") from None
    elif sys.stdin.isatty():
        import getpass

        password = getpass.getpass(prompt)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise BadOption("no password was given", hint="type it, or --password-file FILE")
    return password


def _ask(api: Api, body: dict[str, Any]) -> dict[str, Any]:
    login: dict[str, Any] = api.request("POST", "/login/local", body)
    return login


def _read_code() -> str:
    given = os.environ.get("GPUPOOL_TOTP", "")
    if given or not sys.stdin.isatty():
        return given
    import getpass

    return getpass.getpass("code of the authenticator (empty: none): ").strip()
