"""`gpupool notify`: messages about jobs, budgets and cards by mail and chat."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from gpupool.base.errors import BadOption
from gpupool.base.units import parse_duration
from gpupool.cli.accounts.notify_deliveries import (
    list_deliveries,
    register_deliveries,
    treat_dead,
)
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.output import TableColumn, print_data, print_list
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output
from gpupool.terminal.references import quote_segment

_FORMATS = ("webhook", "slack", "teams", "feishu", "dingtalk", "wecom")


def register(parser: CommandParser) -> None:
    parser.about = """
    Sends a message when a job ends, fails or waits for long, a budget is crossed, a card fails or a node falls silent:
    by mail, to a webhook, Slack, Teams, Feishu, DingTalk or WeCom. Messages are of your own jobs; a tenant-admin may
    choose --scope tenant, an admin --scope pool. An admin allows the hosts and sets the mail server.
    """
    parser.examples = [
        "gpupool notify allow hooks.slack.com",
        "gpupool notify mail --server smtp.example.com:587 --sender gpupool@example.com",
        "gpupool notify add me --mail ada@example.com --on job-failed,job-waiting --waiting 30m",
        "gpupool notify add team --slack URL --on job-failed,budget-crossed --scope tenant",
        "gpupool notify test me",
        "gpupool notify dead list",
        "gpupool notify dead retry --all",
    ]
    parser.add_verbs()
    _register_own(parser)
    _register_settings(parser)


def _register_own(parser: CommandParser) -> None:
    add = parser.add_verb("add", "subscribe a receiver to what happens from now on")
    add.add_argument("name", metavar="NAME", help="its name, for you")
    add.add_argument("--mail", metavar="ADDRESS", help="send mails to this address")
    for kind in _FORMATS:
        add.add_argument(f"--{kind}", metavar="URL", help=f"send requests of format {kind}")
    add.add_argument(
        "--on",
        required=True,
        metavar="TOPICS",
        help="job-placed, job-started, job-ended, job-failed, job-requeued, job-retried, job-moved, "
        "job-waiting, job-idle, job-advised, job-handed-over, promise-moved, schedule-paused, "
        "schedule-failed, token-expiring, budget-crossed, reservation-begins, reservation-ended, "
        "card-failed, node-silent; with commas",
    )
    add.add_argument(
        "--scope",
        choices=("mine", "tenant", "pool"),
        default="mine",
        help="whose (default: of your own jobs)",
    )
    add.add_argument(
        "--waiting",
        type=parse_duration,
        default=1800,
        metavar="TIME",
        help="how long a job waits before job-waiting (default 30m)",
    )
    add.add_argument("--secret-file", metavar="FILE", help="its first line signs the messages")
    add.add_argument("--language", choices=("en", "zh"), default="en", help="of the sentences")
    add.add_argument("--quiet-hours", default="", metavar="HH:MM-HH:MM", help="send at their end")
    add.add_argument("--zone", default="UTC", metavar="ZONE", help="time zone of --quiet-hours")
    add.add_argument(
        "--digest", type=parse_duration, default=0, metavar="TIME", help="one message for each TIME"
    )
    add_output(add, OBJECT_FORMATS)
    listing = parser.add_verb("list", "subscriptions that you may see")
    add_output(listing)
    delete = parser.add_verb("delete", "delete a subscription and its deliveries")
    delete.add_argument("name", metavar="NAME", help="as `notify list` shows it")
    delete.add_argument("--user", metavar="USER", help="whose (default: yours)")
    test = parser.add_verb("test", "send a test message now")
    test.add_argument("name", metavar="NAME", help="as `notify list` shows it")
    register_deliveries(parser)


def _register_settings(parser: CommandParser) -> None:
    allow = parser.add_verb("allow", "let messages be sent to a host")
    allow.add_argument("host", metavar="HOST", help="name or address, as in the URL")
    allow.add_argument("--private", action="store_true", help="private and loopback addresses too")
    allow.add_argument("--plain", action="store_true", help="http too")
    deny = parser.add_verb("deny", "let messages be sent to a host no more")
    deny.add_argument("host", metavar="HOST", help="as `notify settings` shows it")
    mail = parser.add_verb("mail", "set the server that takes the pool's mails")
    mail.add_argument("--server", required=True, metavar="HOST:PORT", help="port 587 if left out")
    mail.add_argument("--sender", required=True, metavar="ADDRESS", help="from whom mails come")
    mail.add_argument(
        "--security",
        choices=("starttls", "tls", "none"),
        default="starttls",
        help="of the connection (default starttls)",
    )
    mail.add_argument("--user", default="", metavar="USER", help="account at the server")
    mail.add_argument("--password-file", metavar="FILE", help="its first line is the password")
    settings = parser.add_verb("settings", "hosts and mail server")
    add_output(settings, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    return int(_VERBS[options.verb](options, context))


def _add_subscription(options: argparse.Namespace, context: CommandContext) -> int:
    receivers = [
        (kind, getattr(options, kind))
        for kind in ("mail", *_FORMATS)
        if getattr(options, kind) is not None
    ]
    if len(receivers) != 1:
        raise BadOption(
            f"{len(receivers)} receivers are named, not one",
            hint=f"name one: --mail ADDRESS, or --{', --'.join(_FORMATS)} with a URL",
        )
    kind, address = receivers[0]
    body = {
        "name": options.name,
        "format": kind,
        "address": address,
        "secret": _read_line(options.secret_file),
        "topics": [one.strip() for one in options.on.split(",") if one.strip()],
        "scope": options.scope,
        "waiting_seconds": options.waiting,
        "language": options.language,
        "quiet_hours": options.quiet_hours,
        "time_zone": options.zone,
        "digest_seconds": options.digest,
    }
    made = context.api.request("POST", "subscriptions", body)
    if options.output != "table":
        print_data(made, options.output)
        return 0
    sys.stdout.write(f"{made['name']} hears of {', '.join(made['topics'])}\n")
    print_notice(f"try it: gpupool notify test {made['name']}")
    return 0


def _list_subscriptions(options: argparse.Namespace, context: CommandContext) -> int:
    rows = context.api.request("GET", "subscriptions")
    print_list(
        rows,
        COLUMNS,
        options.output,
        fields=_list_subscription_fields,
        empty="no subscriptions; make one: gpupool notify add NAME --mail ADDRESS --on job-failed",
        color=context.color,
    )
    return 0


def _delete_subscription(options: argparse.Namespace, context: CommandContext) -> int:
    path = f"subscriptions/{quote_segment(options.name, 'subscription')}"
    context.api.request("DELETE", path, query={"user": options.user})
    sys.stdout.write(f"{options.name} deleted\n")
    return 0


def _test_subscription(options: argparse.Namespace, context: CommandContext) -> int:
    path = f"subscriptions/{quote_segment(options.name, 'subscription')}/test"
    done = context.api.request("POST", path, {}, timeout=60)
    if done["delivered"]:
        sys.stdout.write("delivered\n")
        return 0
    sys.stderr.write(f"gpupool: not delivered: {done['error']}\n")
    return 1


def _allow_host(options: argparse.Namespace, context: CommandContext) -> int:
    hosts = [one for one in _read_hosts(context) if one["host"] != options.host]
    entry = {"host": options.host, "private": options.private, "plain": options.plain}
    changed = {"hosts": [*hosts, entry]}
    context.api.request("PUT", "notification-settings", changed, if_match=context.api.etag)
    sys.stdout.write(f"messages may be sent to {options.host}\n")
    return 0


def _deny_host(options: argparse.Namespace, context: CommandContext) -> int:
    before = _read_hosts(context)
    hosts = [one for one in before if one["host"] != options.host]
    if len(hosts) == len(before):
        raise BadOption(f"{options.host} is not allowed", hint="gpupool notify settings")
    changed = {"hosts": hosts}
    context.api.request("PUT", "notification-settings", changed, if_match=context.api.etag)
    sys.stdout.write(f"messages may be sent to {options.host} no more\n")
    return 0


def _set_mail_server(options: argparse.Namespace, context: CommandContext) -> int:
    host, _, port = (
        options.server.rpartition(":")
        if ":" in options.server
        else (
            options.server,
            "",
            "587",
        )
    )
    if not port.isdigit():
        raise BadOption(f"{port!r} is no port", hint="write it like smtp.example.com:587")
    server = {
        "host": host,
        "port": int(port),
        "security": options.security,
        "sender": options.sender,
        "user": options.user,
        "password": _read_line(options.password_file),
    }
    context.api.request("PUT", "notification-settings", {"mail": server})
    sys.stdout.write(f"mails go out by {host}:{port}\n")
    return 0


def _show_settings(options: argparse.Namespace, context: CommandContext) -> int:
    found = context.api.request("GET", "notification-settings")
    if options.output != "table":
        print_data(found, options.output)
        return 0
    mail = found["mail"]
    server = f"{mail['host']}:{mail['port']} ({mail['security']})" if mail else "--"
    sys.stdout.write(f"mail server  {server}\n")
    for one in found["hosts"]:
        more = [word for word in ("private", "plain") if one[word]]
        sys.stdout.write(f"host         {' '.join([one['host'], *more])}\n")
    if not found["hosts"]:
        sys.stdout.write("host         --\n")
    return 0


def _read_hosts(context: CommandContext) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = context.api.request("GET", "notification-settings")["hosts"]
    return found


def _read_line(file: str | None) -> str:
    """Read the first line of a file; None: nothing. A secret is in no argument: `ps` shows those."""
    if file is None:
        return ""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadOption(f"{file} cannot be read: {error}", hint="name a text file") from error
    return text.partition("\n")[0].strip()


def _list_subscription_fields() -> list[str]:
    from gpupool.wire.notifications import SubscriptionOut

    return list(SubscriptionOut.model_fields)


COLUMNS = (
    TableColumn("NAME", lambda row: row["name"]),
    TableColumn("USER", lambda row: row["user"]),
    TableColumn("FORMAT", lambda row: row["format"]),
    TableColumn("TO", lambda row: row["address"]),
    TableColumn("ON", lambda row: ",".join(row["topics"])),
    TableColumn("SCOPE", lambda row: row["scope"]),
    TableColumn("WAITING", lambda row: str(row["waiting"])),
    TableColumn("DEAD", lambda row: str(row["dead"])),
    TableColumn("QUIET", lambda row: row["quiet_hours"] or "--", wide=True),
    TableColumn("ZONE", lambda row: row["time_zone"], wide=True),
)
_VERBS = {
    "add": _add_subscription,
    "list": _list_subscriptions,
    "delete": _delete_subscription,
    "test": _test_subscription,
    "deliveries": list_deliveries,
    "dead": treat_dead,
    "allow": _allow_host,
    "deny": _deny_host,
    "mail": _set_mail_server,
    "settings": _show_settings,
}
