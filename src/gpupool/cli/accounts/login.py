"""`gpupool login`: remember a pool elsewhere and a session for it."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from gpupool.base.client_settings import ClientSettings
from gpupool.base.errors import BadOption, NotLoggedIn
from gpupool.client.transport import Api
from gpupool.terminal.context import CommandContext
from gpupool.terminal.listing import describe_instant
from gpupool.terminal.parser import CommandParser


def register(parser: CommandParser) -> None:
    parser.about = """
    Exchanges a token for a session and keeps it in ~/.config/gpupool/login.json (mode 0600); every command then
    goes to that pool, unless --state-dir or GPUPOOL_URL say otherwise. The token is asked for on the terminal,
    or read from stdin or a file; it is never an argument, which other users could see. With --sso a code is
    entered in a browser at the pool's identity provider; with --user a password is asked for.
    """
    parser.examples = [
        "gpupool login https://gpu.example.org:8443",
        "gpupool login https://gpu.example.org:8443 --token-file ~/token",
        "gpupool login https://gpu.example.org:8443 --sso",
        "gpupool login https://gpu.example.org:8443 --user alice",
        "gpupool login --forget",
    ]
    parser.add_argument("url", nargs="?", metavar="URL", help="where the pool listens")
    parser.add_argument("--token-file", metavar="FILE", help="read the token from there")
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument(
        "--sso",
        nargs="?",
        const="",
        metavar="PROVIDER",
        help="log in at the identity provider (of that name, where there are several)",
    )
    ways.add_argument("--user", metavar="USER", help="log in with a password")
    parser.add_argument(
        "--provider", metavar="NAME", help="with --user: an LDAP directory (default: local account)"
    )
    parser.add_argument(
        "--password-file", metavar="FILE", help="with --user: read the password from there"
    )
    parser.add_argument(
        "--ca-file", metavar="FILE", help="certificate that the pool's was signed with"
    )
    parser.add_argument("--forget", action="store_true", help="remove the saved login")


def run(options: argparse.Namespace, context: CommandContext) -> int:
    file = os.fspath(context.settings.login_file or "")
    if options.forget:
        return _forget_login(file)
    if not options.url:
        raise BadOption("login needs the address of a pool", hint="gpupool login https://host:8443")
    ca_file = os.path.abspath(options.ca_file) if options.ca_file else context.settings.ca_file
    api = Api(ClientSettings(url=options.url, ca_file=ca_file))
    # Over the Unix socket the kernel names the caller: a token would only weaken that.
    if api.local:
        raise BadOption("a pool on this machine knows you without a login", hint="gpupool whoami")
    # The session is saved, never the token: it ends after 12 hours by itself.
    session = _open_session(options, api)
    save_login(
        file,
        {
            "url": api.addresses,
            "token": session["token"],
            "user": session["user"],
            "ca_file": ca_file,
        },
    )
    until = describe_instant(session["expires_ns"])
    sys.stdout.write(
        f"logged in at {api.endpoint} as {session['user']} of {session['tenant']} until {until}\n"
    )
    return 0


def _open_session(options: argparse.Namespace, api: Api) -> dict[str, Any]:
    from gpupool.cli.signon.login_ways import login_by_password, login_by_provider

    if options.sso is not None:
        return login_by_provider(api, options.sso or None)
    if options.user is not None:
        return login_by_password(api, options.user, options.provider, options.password_file)
    session: dict[str, Any] = api.request(
        "POST", "/login", {"token": read_token(options.token_file)}
    )
    return session


def read_token(file: str | None) -> str:
    """Read the token from a file, a pipe, or the terminal without echo.

    Raises:
        BadOption: The file cannot be read.
        NotLoggedIn: The token is empty.
    """
    if file is not None:
        try:
            with open(file, encoding="ascii", errors="replace") as opened:
                token = opened.readline().strip()
        except OSError as error:
            raise BadOption(f"cannot read the token file {file}: {error.strerror}") from None
    elif sys.stdin.isatty():
        import getpass

        token = getpass.getpass("token: ").strip()
    else:
        token = sys.stdin.readline().strip()
    if not token:
        raise NotLoggedIn(
            "no token was given",
            hint="an admin makes one with: gpupool token create --user YOU --once",
        )
    return token


def save_login(file: str, login: dict[str, Any]) -> None:
    """Write the login for its owner's eyes only, in one step."""
    os.makedirs(os.path.dirname(file), mode=0o700, exist_ok=True)
    fresh = f"{file}.new"
    # O_NOFOLLOW: a link put there by another account must not receive the session.
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        # A file left by a killed login keeps its mode through O_CREAT, so the mode is set again.
        os.fchmod(descriptor, 0o600)
        json.dump(login, opened)
    os.replace(fresh, file)


def _forget_login(file: str) -> int:
    try:
        os.unlink(file)
    except FileNotFoundError:
        sys.stdout.write("no login was saved\n")
        return 0
    sys.stdout.write("the saved login is gone\n")
    return 0
