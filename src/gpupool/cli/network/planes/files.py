"""The verbs of `gpupool network` for the switches and targets of planes (admins)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from gpupool.base.errors import BadInput
from gpupool.cli.network.planes.texts import EVIDENCE_COLUMNS
from gpupool.client.yaml_text import BadYaml, read_documents
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.output import print_data, print_list
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output
from gpupool.terminal.references import quote_segment


def register_plane_files(parser: CommandParser) -> None:
    """Add the verbs."""
    inventory = parser.add_verb(
        "plane-inventory", "switches, node ports and storage targets of planes (admins)"
    )
    inventory.add_argument(
        "file", metavar="FILE", nargs="?", help="YAML that replaces the inventory; none: show it"
    )
    compiling = parser.add_verb(
        "plane-compile", "write the files for switches and targets (admins)"
    )
    compiling.add_argument("directory", metavar="DIRECTORY", help="where to; it is made")
    report = parser.add_verb("plane-report", "report what a switch or target has (admins)")
    report.add_argument("target", metavar="TARGET", nargs="?", help="name of a compiled file")
    report.add_argument("--hash", metavar="HASH", help="of the compiled file that was applied")
    report.add_argument(
        "--file", metavar="FILE", help="what was read from the target; -: standard input"
    )
    add_output(inventory, OBJECT_FORMATS)
    add_output(compiling)
    add_output(report)


def _set_inventory(options: argparse.Namespace, context: CommandContext) -> int:
    if options.file is None:
        found = context.api.request("GET", "plane-inventory")
    else:
        found = context.api.request("PUT", "plane-inventory", _read_yaml(options.file))
    if options.output != "table":
        print_data(found, options.output)
        return 0
    inventory = found["inventory"]
    if inventory is None:
        sys.stdout.write("no inventory of planes was loaded\n")
        return 0
    leaves = len(inventory["leaves"])
    targets = len(inventory["storage_targets"])
    sys.stdout.write(
        f"{leaves} leaves, {len(inventory['nodes'])} nodes, {targets} storage targets\n"
    )
    for finding in found["findings"]:
        sys.stdout.write(f"{finding['node']}: {finding['text']}\n")
    return 0


def _read_yaml(path: str) -> Any:
    text = _read_text(path)
    try:
        documents = read_documents(text)
    except BadYaml as error:
        line = "" if error.line is None else f", line {error.line}"
        raise BadInput(f"{path}{line}: no YAML: {error}", hint="correct the file") from error
    if len(documents) != 1:
        raise BadInput(f"{path} has {len(documents)} documents; an inventory is one")
    return documents[0][1]


def _read_text(path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from error


def _compile_files(options: argparse.Namespace, context: CommandContext) -> int:
    files: list[Any] = context.api.request("GET", "plane-files")
    directory = Path(options.directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for file in files:
            (directory / file["name"]).write_text(file["text"])
    except OSError as error:
        raise BadInput(f"{directory} cannot be written: {error}") from error
    if options.output != "table":
        for file in files:
            del file["text"]
        print_data(files, options.output)
        return 0
    for file in files:
        mark = "applied" if file["is_applied"] else "to apply"
        sys.stdout.write(f"{file['hash']}  {file['name']}  {mark}\n")
    if not files:
        print_notice("no tenant demands a plane that needs files")
    return 0


def _report_target(options: argparse.Namespace, context: CommandContext) -> int:
    if options.target is None:
        found: list[Any] = context.api.request("GET", "plane-evidence")
        print_list(found, EVIDENCE_COLUMNS, options.output, empty="nothing was reported")
        return 0
    if (options.hash is None) == (options.file is None):
        raise BadInput("a report has either --hash or --file", hint="--hash HASH, or --file FILE")
    text = None if options.file is None else _read_text(options.file)
    body = {"hash": options.hash, "text": text}
    path = f"plane-evidence/{quote_segment(options.target, 'target')}"
    made: dict[str, Any] = context.api.request("PUT", path, body)
    if options.output != "table":
        print_data(made, options.output)
        return 0
    sys.stdout.write(f"{made['name']}: {made['hash'][:12]} noted\n")
    return 0


PLANE_FILE_VERBS = {
    "plane-inventory": _set_inventory,
    "plane-compile": _compile_files,
    "plane-report": _report_target,
}
