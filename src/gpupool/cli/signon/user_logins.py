"""`gpupool user password` and `gpupool user totp`: local accounts."""

from __future__ import annotations

import argparse
import sys

from gpupool.base.errors import BadOption
from gpupool.cli.signon.login_ways import read_password
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.output import print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output
from gpupool.terminal.references import quote_segment


def register_logins(parser: CommandParser) -> None:
    """Add the verbs."""
    password = parser.add_verb("password", "set or remove the password of a local account")
    password.add_argument("user", metavar="USER", help="which")
    password.add_argument("--password-file", metavar="FILE", help="read the new one from there")
    password.add_argument(
        "--current-file", metavar="FILE", help="one's own over the network: the current one"
    )
    password.add_argument(
        "--remove", action="store_true", help="log in by tokens or a provider alone"
    )
    totp = parser.add_verb("totp", "set up or remove one's authenticator (6 digits, RFC 6238)")
    totp.add_argument("user", metavar="USER", help="which")
    totp.add_argument("--confirm", metavar="CODE", help="a code of it; it counts from then on")
    totp.add_argument("--remove", action="store_true", help="an admin, after a lost telephone")
    add_output(totp, OBJECT_FORMATS)


def run_password(options: argparse.Namespace, context: CommandContext) -> int:
    """Set or remove a password."""
    path = f"users/{quote_segment(options.user, 'user')}/password"
    if options.remove:
        context.api.request("DELETE", path)
        sys.stdout.write(f"{options.user} has no password\n")
        return 0
    current = None if options.current_file is None else read_password(options.current_file)
    password = read_password(options.password_file, "new password: ")
    is_typed = options.password_file is None and sys.stdin.isatty()
    if is_typed and read_password(None, "again: ") != password:
        raise BadOption("the two passwords differ; nothing was changed")
    context.api.request("PUT", path, {"password": password, "current": current})
    sys.stdout.write(f"the password of {options.user} is set; its sessions ended\n")
    return 0


def run_totp(options: argparse.Namespace, context: CommandContext) -> int:
    """Set up, confirm or remove an authenticator."""
    path = f"users/{quote_segment(options.user, 'user')}/totp"
    if options.remove:
        context.api.request("DELETE", path)
        sys.stdout.write(f"{options.user} logs in without an authenticator\n")
        return 0
    if options.confirm is not None:
        context.api.request("PUT", path, {"code": options.confirm})
        sys.stdout.write(f"{options.user} logs in with a code from now on\n")
        return 0
    made = context.api.request("POST", path)
    if options.output != "table":
        print_data(made, options.output)
        return 0
    sys.stdout.write(f"{made['uri']}\n")
    print_notice(
        f"enter this in an authenticator, then: gpupool user totp {options.user} --confirm CODE"
    )
    return 0
