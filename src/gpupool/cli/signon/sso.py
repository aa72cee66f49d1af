"""`gpupool sso`: identity providers, the rules from groups to rights, and leavers."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.base.ids import check_name
from gpupool.cli.signon import leaver_policies, rules
from gpupool.cli.signon.leaver_policies import describe_choice, read_seconds
from gpupool.cli.signon.provider_options import (
    add_provider_options,
    read_secret,
    read_settings,
)
from gpupool.terminal.confirm import confirm_plan
from gpupool.terminal.context import CommandContext
from gpupool.terminal.listing import describe_instant
from gpupool.terminal.output import TableColumn, print_data, print_list
from gpupool.terminal.parser import (
    OBJECT_FORMATS,
    CommandParser,
    add_output,
    add_yes,
    integer_within,
)
from gpupool.terminal.references import quote_segment


def register(parser: CommandParser) -> None:
    parser.about = """
    People log in by an OpenID Connect provider (Keycloak, Entra ID, Okta) or an LDAP directory, and rules turn
    their groups into a role of a tenant. The first rule that matches wins, at every login; without one the login
    is refused. A person is known by the provider's identifier, never by a mail address. Secrets are read from a
    file or the environment and never shown.
    """
    parser.examples = [
        "gpupool sso add oidc corp --issuer https://id.example.org --client-id gpupool",
        "gpupool sso add ldap staff --url ldaps://ldap.example.org --base-dn dc=example,dc=org",
        "gpupool sso rule-add --group gpu-nlp --role user --tenant nlp",
        "gpupool sso explain --groups gpu-nlp --user alice",
        "gpupool sso policy-set hand-over --tenant nlp --to carol",
        "gpupool sso policy-set keep --provider staff --for 30d",
        "gpupool sso sync staff --dry-run",
    ]
    parser.add_verbs()
    add = parser.add_verb("add", "add an identity provider")
    add.add_argument("kind", choices=("oidc", "ldap"), help="what it speaks")
    add.add_argument("provider", metavar="NAME", help="its name in this pool")
    add_provider_options(add)
    change = parser.add_verb("set", "change a provider; other settings stay")
    change.add_argument("provider", metavar="NAME", help="which")
    add_provider_options(change)
    listing = parser.add_verb("list", "identity providers")
    add_output(listing)
    show = parser.add_verb("show", "a provider's settings, without its secret")
    show.add_argument("provider", metavar="NAME", help="which")
    add_output(show, ("yaml", "json"))
    delete = parser.add_verb("delete", "delete a provider; its persons cannot log in by it")
    delete.add_argument("provider", metavar="NAME", help="which")
    add_yes(delete)
    test = parser.add_verb("test", "ask a provider what a login would ask; exit code 3 if it fails")
    test.add_argument("provider", metavar="NAME", help="which")
    add_output(test, OBJECT_FORMATS)
    sync = parser.add_verb("sync", "disable the users that the directory no longer has")
    sync.add_argument("provider", metavar="NAME", help="which")
    sync.add_argument(
        "--jobs",
        choices=("keep", "stop", "hand-over"),
        help="of leavers (default: by the policy of the tenant or provider, else keep)",
    )
    sync.add_argument("--to", metavar="USER", help="with hand-over: the new owner")
    sync.add_argument(
        "--for", dest="keep_for", metavar="TIME", help="with keep: stop them after this, as 30d"
    )
    sync.add_argument(
        "--unseen",
        type=integer_within("--unseen", "days", 1, 3650),
        metavar="DAYS",
        help="OIDC: leavers are persons without a login for so long",
    )
    sync.add_argument("--dry-run", action="store_true", help="only list the leavers")
    sync.add_argument(
        "--force", action="store_true", help="also where more than half of 10 or more are leavers"
    )
    add_output(sync, OBJECT_FORMATS)
    leaver_policies.register_policies(parser)
    rules.register_rules(parser)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    verbs = _VERBS | leaver_policies.VERBS | rules.VERBS
    return int(verbs[options.verb](options, context))


def _add_provider(options: argparse.Namespace, context: CommandContext) -> int:
    check_name(options.provider, "provider")
    path = _path(options.provider)
    known = [one["name"] for one in context.api.request("GET", "sso/providers")]
    if options.provider in known:
        from gpupool.base.errors import NameTaken

        raise NameTaken(
            f"there is already a provider {options.provider!r}",
            hint=f"change it: gpupool sso set {options.provider}",
        )
    body = {options.kind: read_settings(options, options.kind), "secret": read_secret(options)}
    made = context.api.request("PUT", path, body)
    sys.stdout.write(f"{made['name']}: {_describe(made)}\n")
    sys.stdout.write(f"next: gpupool sso test {made['name']}; gpupool sso rule-add --help\n")
    return 0


def _change_provider(options: argparse.Namespace, context: CommandContext) -> int:
    path = _path(options.provider)
    known = context.api.request("GET", path)
    kind = known["kind"]
    settings = known[kind] | read_settings(options, kind)
    body = {kind: settings, "secret": read_secret(options)}
    made = context.api.request("PUT", path, body)
    sys.stdout.write(f"{made['name']}: {_describe(made)}\n")
    return 0


def _list_providers(options: argparse.Namespace, context: CommandContext) -> int:
    rows = context.api.request("GET", "sso/providers")
    print_list(rows, COLUMNS, options.output, empty="no identity providers")
    return 0


def _show_provider(options: argparse.Namespace, context: CommandContext) -> int:
    print_data(context.api.request("GET", _path(options.provider)), options.output)
    return 0


def _delete_provider(options: argparse.Namespace, context: CommandContext) -> int:
    path = _path(options.provider)
    known = context.api.request("GET", path)
    confirm_plan(
        [f"delete the provider {known['name']}; its persons cannot log in by it"], yes=options.yes
    )
    context.api.request("DELETE", path)
    sys.stdout.write(f"{known['name']} deleted\n")
    return 0


def _test_provider(options: argparse.Namespace, context: CommandContext) -> int:
    found = context.api.request("POST", f"{_path(options.provider)}/test")
    if options.output != "table":
        print_data(found, options.output)
    else:
        sys.stdout.write("".join(f"{step}\n" for step in found["steps"]))
    return 0 if found["ok"] else 3


def _sync_provider(options: argparse.Namespace, context: CommandContext) -> int:
    body = {
        "provider": options.provider,
        "jobs": options.jobs,
        "to": options.to,
        "keep_seconds": read_seconds(options.keep_for),
        "unseen_days": options.unseen,
        "dry_run": options.dry_run,
        "force": options.force,
    }
    found = context.api.request("POST", "sso/sync", body, timeout=600.0)
    if options.output != "table":
        print_data(found, options.output)
        return 0
    print_list(found["leavers"], LEAVERS, "table", empty="no leavers")
    verb = "would be disabled" if options.dry_run else "disabled"
    stopped = f"; {found['stopped']} jobs stopped" if found["stopped"] else ""
    things = "1 thing" if found["handed"] == 1 else f"{found['handed']} things"
    handed = f"; {things} handed over" if found["handed"] else ""
    sys.stdout.write(
        f"{len(found['leavers'])} of {found['checked']} users {verb}{stopped}{handed}\n"
    )
    return 0


def _path(provider: str) -> str:
    return f"sso/providers/{quote_segment(provider, 'provider')}"


def _describe(provider: dict[str, Any]) -> str:
    if provider["kind"] == "oidc":
        return f"OIDC of {provider['oidc']['issuer']} as {provider['oidc']['client_id']}"
    return f"LDAP at {provider['ldap']['url']} below {provider['ldap']['base_dn']}"


COLUMNS = (
    TableColumn("NAME", lambda row: row["name"]),
    TableColumn("KIND", lambda row: row["kind"]),
    TableColumn("WHERE", lambda row: _describe(dict(row))),
    TableColumn("SECRET", lambda row: "set" if row["has_secret"] else "none"),
    TableColumn("CREATED", lambda row: describe_instant(row["created_ns"]), wide=True),
)
LEAVERS = (
    TableColumn("USER", lambda row: row["user"]),
    TableColumn("TENANT", lambda row: row["tenant"]),
    TableColumn("JOBS", lambda row: row["jobs"]),
    TableColumn("POLICY", describe_choice),
    TableColumn("REASON", lambda row: row["reason"]),
)
_VERBS = {
    "add": _add_provider,
    "set": _change_provider,
    "list": _list_providers,
    "show": _show_provider,
    "delete": _delete_provider,
    "test": _test_provider,
    "sync": _sync_provider,
}
