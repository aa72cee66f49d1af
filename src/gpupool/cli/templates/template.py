"""`gpupool template`: jobs by a few fields, and the documents that ask for them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from gpupool.base.errors import BadOption
from gpupool.cli.serving.rule_options import add_bounds
from gpupool.cli.templates.field_words import FieldSplitter
from gpupool.cli.templates.use import run_template
from gpupool.client.yaml_text import BadYaml, read_documents
from gpupool.terminal.confirm import confirm_plan
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.language import is_chinese
from gpupool.terminal.listing import describe_instant
from gpupool.terminal.output import (
    Row,
    TableColumn,
    format_pairs,
    format_table,
    print_data,
    print_list,
)
from gpupool.terminal.parser import (
    OBJECT_FORMATS,
    CommandParser,
    add_output,
    add_yes,
    integer_within,
)
from gpupool.terminal.references import quote_segment

_LAST_VERSION = 1_000_000
#: Bytes of a document: the largest shipped one has 4 KiB.
_LARGEST_FILE = 1 << 20


def register(parser: CommandParser) -> None:
    parser.about = """
    A template asks for a few fields and makes a job, an array or a gang of them. Shipped: notebook, vscode, training,
    torchrun, sweep, batch-inference, vllm, triton, federated-party. Fields are options of `run`; `show` lists them.
    Admins add templates for all, tenant-admins for their tenant; a version never changes.
    """
    parser.examples = [
        "gpupool template list",
        "gpupool template show training",
        "gpupool template run training --script train.py --gpu 0.5 -- --epochs 3",
        "gpupool template run vllm --model /models/llama --name chat --min 1 --max 4",
        "gpupool template run torchrun --script train.py --members 4 --dry-run",
        "gpupool template run sweep --script train.py --set parameters=lr=0.1 --set parameters=bs=8",
        "gpupool template show training --document >mine.yaml",
        "gpupool template add mine.yaml",
    ]
    parser.add_verbs()
    _register_use(parser)
    _register_admin(parser)


def _register_use(parser: CommandParser) -> None:
    listing = parser.add_verb("list", "templates that you may use")
    add_output(listing)
    show = parser.add_verb("show", "the fields of a template")
    _add_name(show)
    _add_version(show, "default: the default one")
    show.add_argument(
        "--document", action="store_true", help="print the file, to change and add it"
    )
    add_output(show, OBJECT_FORMATS)
    versions = parser.add_verb("versions", "versions of a template, the newest first")
    _add_name(versions)
    add_output(versions)
    run_verb = parser.add_verb("run", "submit what a template makes of fields")
    run_verb.about = """
    Every option that is not listed here is a field: --gpu 0.5 is the same as --set gpu=0.5. Words after -- are the
    field arguments. Prints the id of the job, of an array or gang its name. --min or --max make a service of it:
    replicas behind one address, as many as their load needs;  gpupool service --help. More cards than a node has
    are requested as a gang, if they divide evenly; with --no-gang and with -o json they are refused.
    """
    run_verb.placeholder = "[--FIELD VALUE ...] [-- ARG...]"
    _add_name(run_verb)
    run_verb.add_argument(
        "--set", action="append", default=[], metavar="FIELD=VALUE", help="value of a field"
    )
    _add_version(run_verb, "default: the default one")
    run_verb.add_argument(
        "--name", metavar="NAME", help="of the job (default: made of the template's)"
    )
    run_verb.add_argument("--project", metavar="PROJECT", help="that the job counts for")
    run_verb.add_argument("--priority", metavar="PRIORITY", help="low, normal, high, or a number")
    run_verb.add_argument(
        "--no-gang",
        action="store_true",
        help="refuse more cards than a node has instead of requesting a gang of several nodes",
    )
    add_bounds(run_verb)
    run_verb.add_argument(
        "--dry-run",
        action="store_true",
        help="print the same as a command and YAML; submit nothing",
    )
    run_verb.add_argument(
        "--preview", action="store_true", help="say where it would run or why it waits"
    )
    add_output(run_verb, OBJECT_FORMATS)
    run_verb.split_words = FieldSplitter(run_verb)


def _register_admin(parser: CommandParser) -> None:
    add = parser.add_verb("add", "add a version of a template from a file")
    add.add_argument("file", metavar="FILE", help="YAML; - reads it from stdin")
    add.add_argument(
        "--tenant", metavar="TENANT", help="for this tenant alone (default: all, or your own)"
    )
    add_output(add, OBJECT_FORMATS)
    remove = parser.add_verb("remove", "remove a template; jobs that it made go on")
    _add_name(remove)
    _add_version(remove, "only this one")
    add_yes(remove)
    enable = parser.add_verb("enable", "let a template be used, or choose its default version")
    _add_name(enable)
    _add_version(enable, "make it the default one")
    disable = parser.add_verb("disable", "let a template be used no more")
    _add_name(disable)


def _add_name(verb: CommandParser) -> None:
    verb.add_argument("template", metavar="NAME", help="as `template list` shows it")
    verb.add_argument(
        "--tenant", metavar="TENANT", help="whose (default: your tenant's, else that of all)"
    )


def _add_version(verb: CommandParser, text: str) -> None:
    verb.add_argument(
        "--version",
        type=integer_within("--version", "a version", 1, _LAST_VERSION),
        metavar="N",
        help=text,
    )


def run(options: argparse.Namespace, context: CommandContext) -> int:
    return int(_VERBS[options.verb](options, context))


def _list_templates(options: argparse.Namespace, context: CommandContext) -> int:
    rows = context.api.request("GET", "templates")
    print_list(
        rows,
        COLUMNS,
        options.output,
        fields=lambda: ["name", "tenant", "summary", "version", "versions", "enabled", "shipped"],
        empty="no templates",
        color=context.color,
    )
    return 0


def _show_template(options: argparse.Namespace, context: CommandContext) -> int:
    query = {"version": options.version, "tenant": options.tenant}
    found = context.api.request("GET", _path(options.template), query=query)
    if options.document:
        print_data(_drop_defaults(found["document"]), "yaml")
        return 0
    if options.output != "table":
        print_data(found, options.output)
        return 0
    document = found["document"]
    state = "" if found["enabled"] else "disabled"
    facts = [
        ("template", f"{found['name']} version {document['version']}"),
        ("of", found["tenant"] or "all tenants"),
        ("state", state),
        ("does", _choose_words(document["summary"])),
        ("needs", ", ".join(document["programs"])),
    ]
    sys.stdout.write(format_pairs([fact for fact in facts if fact[1]]) + "\n\n")
    fields = sorted(document["fields"].items(), key=lambda item: (item[1]["order"], item[0]))
    rows = [{"name": name, "takes": found["takes"][name], **field} for name, field in fields]
    sys.stdout.write(format_table(rows, FIELD_COLUMNS) + "\n")
    return 0


def _list_versions(options: argparse.Namespace, context: CommandContext) -> int:
    rows = context.api.request(
        "GET", f"{_path(options.template)}/versions", query={"tenant": options.tenant}
    )
    print_list(rows, VERSION_COLUMNS, options.output, empty="no versions", color=context.color)
    return 0


def _add_template(options: argparse.Namespace, context: CommandContext) -> int:
    body = {"template": _read_file(options.file), "tenant": options.tenant}
    made = context.api.request("POST", "templates", body)
    if options.output != "table":
        print_data(made, options.output)
        return 0
    sys.stdout.write(f"{made['name']} version {made['version']} added\n")
    print_notice(f"look at its fields: gpupool template show {made['name']}")
    return 0


def _remove_template(options: argparse.Namespace, context: CommandContext) -> int:
    named = f"template {options.template}"
    if options.version is not None:
        named += f" version {options.version}"
    confirm_plan([f"remove {named}; jobs that it made go on"], yes=options.yes)
    query = {"version": options.version, "tenant": options.tenant}
    context.api.request("DELETE", _path(options.template), query=query)
    sys.stdout.write(f"{named} removed\n")
    return 0


def _enable_template(options: argparse.Namespace, context: CommandContext) -> int:
    body = {"enabled": True, "default_version": options.version}
    found = _change(options, context, body)
    sys.stdout.write(f"{found['name']} enabled, version {found['version']}\n")
    return 0


def _disable_template(options: argparse.Namespace, context: CommandContext) -> int:
    found = _change(options, context, {"enabled": False})
    sys.stdout.write(f"{found['name']} disabled\n")
    return 0


def _change(
    options: argparse.Namespace, context: CommandContext, body: dict[str, Any]
) -> dict[str, Any]:
    found: dict[str, Any] = context.api.request(
        "PATCH", _path(options.template), body, query={"tenant": options.tenant}
    )
    return found


def _path(name: str) -> str:
    return f"templates/{quote_segment(name, 'template')}"


def _read_file(file: str) -> dict[str, Any]:
    try:
        if file == "-":
            text = sys.stdin.read(_LARGEST_FILE + 1)
        else:
            with Path(file).open(encoding="utf-8") as opened:
                text = opened.read(_LARGEST_FILE + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise BadOption(f"{file} cannot be read: {error}", hint="name a YAML file") from error
    if len(text) > _LARGEST_FILE:
        raise BadOption(f"{file} has more than {_LARGEST_FILE} characters")
    try:
        documents = [value for _, value in read_documents(text)]
    except BadYaml as error:
        where = "" if error.line is None else f" line {error.line}"
        raise BadOption(f"{file}{where} is no YAML: {error}") from error
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise BadOption(
            f"{file} has {len(documents)} documents, expected one template",
            hint="gpupool template show training --document  prints one",
        )
    return documents[0]


def _drop_defaults(part: Any) -> Any:
    """Leave out what says nothing, so that a file has what its author would write."""
    if isinstance(part, dict):
        kept = {name: _drop_defaults(value) for name, value in part.items()}
        return {name: value for name, value in kept.items() if value not in (None, {}, [])}
    if isinstance(part, list):
        return [_drop_defaults(value) for value in part]
    return part


def _choose_words(words: dict[str, str | None]) -> str:
    """Choose what a template says in the language of the command line; not each has Chinese."""
    return (words.get("zh") if is_chinese() else None) or str(words["en"])


def _format_default(row: Row) -> str:
    default = row["default"]
    if default is None:
        return "(needed)" if row["required"] else "--"
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default)


COLUMNS = (
    TableColumn("NAME", lambda row: row["name"]),
    TableColumn("VERSION", lambda row: str(row["version"])),
    TableColumn("OF", lambda row: row["tenant"] or "all"),
    TableColumn("STATE", lambda row: "enabled" if row["enabled"] else "disabled"),
    TableColumn("DOES", lambda row: _choose_words(row["summary"])),
)
FIELD_COLUMNS = (
    TableColumn("FIELD", lambda row: row["name"]),
    TableColumn("DEFAULT", _format_default),
    TableColumn("TAKES", lambda row: row["takes"]),
    TableColumn("TITLE", lambda row: _choose_words(row["title"])),
)
VERSION_COLUMNS = (
    TableColumn("VERSION", lambda row: str(row["version"])),
    TableColumn("DEFAULT", lambda row: "yes" if row["is_default"] else "--"),
    TableColumn("BY", lambda row: row["user"] or ("gpupool" if row["shipped"] else "--")),
    TableColumn(
        "ADDED",
        lambda row: "--" if row["created_ns"] is None else describe_instant(row["created_ns"]),
    ),
)
_VERBS = {
    "list": _list_templates,
    "show": _show_template,
    "versions": _list_versions,
    "run": run_template,
    "add": _add_template,
    "remove": _remove_template,
    "enable": _enable_template,
    "disable": _disable_template,
}
