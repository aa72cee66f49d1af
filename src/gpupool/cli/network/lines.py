"""The verbs of `gpupool network` for dedicated lines."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from gpupool.base.errors import BadOption
from gpupool.cli.network.objects import (
    add_network,
    build_path,
    create_part,
    delete_part,
    list_parts,
)
from gpupool.terminal.confirm import confirm_plan
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.listing import describe_instant
from gpupool.terminal.output import TableColumn, format_pairs, format_table, print_data, print_list
from gpupool.terminal.parser import (
    OBJECT_FORMATS,
    CommandParser,
    add_output,
    add_yes,
    integer_within,
)

_KIND = "lines"


def register_lines(parser: CommandParser) -> None:
    """Add the verbs."""
    create = parser.add_verb("line-create", "connect a network with a company's router (BGP)")
    delete = parser.add_verb("line-delete", "delete a dedicated line: session and routes end")
    listing = parser.add_verb("line-list", "dedicated lines of a network")
    show = parser.add_verb("line-show", "one dedicated line with what its peer announces")
    add_network(create, delete, listing, show)
    for verb in (delete, show):
        verb.add_argument("line", metavar="LINE", help="id of the line")
    _add_link(create)
    _add_session(create)
    _add_translations(create)
    add_yes(delete)
    for verb in (create, show):
        add_output(verb, OBJECT_FORMATS)
    add_output(listing)


def _add_link(create: CommandParser) -> None:
    create.add_argument(
        "--vlan",
        required=True,
        type=integer_within("--vlan", "a VLAN", 1, 4094),
        metavar="VLAN",
        help="of those that an admin opened",
    )
    create.add_argument(
        "--address",
        required=True,
        metavar="ADDRESS/BITS",
        help="of the network's router on the line, e.g. 192.168.200.1/29",
    )
    create.add_argument(
        "--speaker", metavar="ADDRESS", help="second address of ours, for BGP (default: the next)"
    )
    create.add_argument(
        "--peer", required=True, metavar="ADDRESS", help="address of the company's router"
    )
    mtu = integer_within("--mtu", "bytes of a packet", 576, 9000)
    create.add_argument(
        "--mtu", type=mtu, default=1500, metavar="BYTES", help="largest packet (default: 1500)"
    )


def _add_session(create: CommandParser) -> None:
    for option, text in (("--asn", "our AS number"), ("--peer-asn", "the peer's AS number")):
        create.add_argument(
            option,
            required=True,
            type=integer_within(option, "an AS number", 1, 4294967294),
            metavar="ASN",
            help=text,
        )
    create.add_argument(
        "--key-file",
        metavar="FILE",
        help="file with the TCP MD5 key of the session; - reads it from the standard input",
    )
    create.add_argument("--bfd", action="store_true", help="detect failures within two seconds")
    create.add_argument(
        "--prefix-limit",
        type=integer_within("--prefix-limit", "prefixes", 1, 1000),
        default=100,
        metavar="N",
        help="prefixes that are learned at most (default: 100)",
    )
    create.add_argument(
        "--allow",
        action="append",
        required=True,
        metavar="PREFIX",
        help="what the peer may announce, with its parts; may be repeated",
    )
    create.add_argument(
        "--announce",
        action="append",
        metavar="PREFIX",
        help="a subnet that the peer learns; may be repeated (default: all of the network)",
    )


def _add_translations(create: CommandParser) -> None:
    create.add_argument(
        "--translate",
        action="append",
        default=[],
        metavar="SUBNET=PREFIX",
        help="a subnet that the company sees as another prefix of the same length; may be repeated",
    )
    create.add_argument(
        "--translate-peer",
        action="append",
        default=[],
        metavar="PREFIX=PREFIX",
        help="a prefix of --allow, and as which one jobs see it; may be repeated",
    )


def _split_translations(texts: list[str], option: str, first: str, last: str) -> list[Any]:
    """Split texts like `10.0.0.0/24=100.64.7.0/24` for a request. Raises BadOption."""
    found = list[Any]()
    for text in texts:
        own, has_both, other = text.partition("=")
        if not has_both:
            raise BadOption(
                f"{option} {text}: expected two prefixes with = between them",
                hint=f"write it like {option} 10.0.0.0/24=100.64.7.0/24",
            )
        found.append({first: own, last: other})
    return found


def _read_key(name: str | None) -> str | None:
    if name is None:
        return None
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadOption(f"cannot read the key in {name}: {error}") from error
    key = text.strip("\r\n")
    if not 1 <= len(key) <= 80 or not all("!" <= letter <= "~" for letter in key):
        raise BadOption(
            f"--key-file {name} has no key of 1 to 80 ASCII characters without blanks",
            hint="write the key alone on one line",
        )
    return key


def _create_line(options: argparse.Namespace, context: CommandContext) -> int:
    body = {
        "vlan": options.vlan,
        "address": options.address,
        "speaker": options.speaker,
        "peer": options.peer,
        "asn": options.asn,
        "peer_asn": options.peer_asn,
        "key": _read_key(options.key_file),
        "bfd": options.bfd,
        "mtu": options.mtu,
        "prefix_limit": options.prefix_limit,
        "allowed": options.allow,
        "announced": options.announce,
        "translations": _split_translations(options.translate, "--translate", "inside", "outside"),
        "peer_translations": _split_translations(
            options.translate_peer, "--translate-peer", "outside", "inside"
        ),
    }
    made = create_part(options, context, build_path(options, _KIND), body)
    if options.output != "table":
        print_data(made, options.output)
        return 0
    sys.stdout.write(f"{made['id']}\n")
    print_notice(
        f"the peer {made['peer']} configures the neighbor {made['speaker']}, AS {made['asn']};\n"
        f"gpupool network line-show {options.name} {made['id']}  says whether the session is up"
    )
    return 0


def _delete_line(options: argparse.Namespace, context: CommandContext) -> int:
    path = build_path(options, _KIND, line=options.line)
    # Read first: an unknown line is refused before the question.
    line: dict[str, Any] = context.api.request("GET", path, query={"tenant": options.tenant})
    question = f"delete line {line['id']} of VLAN {line['vlan']} and its routes"
    confirm_plan([question], yes=options.yes)
    delete_part(options, context, path)
    sys.stdout.write(f"{options.line} deleted\n")
    return 0


def _list_lines(options: argparse.Namespace, context: CommandContext) -> int:
    lines = list_parts(options, context, build_path(options, _KIND))
    print_list(lines, COLUMNS, options.output, empty="no dedicated lines")
    return 0


def _show_line(options: argparse.Namespace, context: CommandContext) -> int:
    path = build_path(options, _KIND, line=options.line)
    line: dict[str, Any] = context.api.request("GET", path, query={"tenant": options.tenant})
    if options.output != "table":
        print_data(line, options.output)
        return 0
    facts: list[tuple[str, object]] = [
        ("line", line["id"]),
        ("network", line["network"]),
        ("state", line["state"]),
        ("reason", line["reason"] or "none"),
        ("vlan", line["vlan"]),
        ("router", line["address"]),
        ("speaker", f"{line['speaker']}, AS {line['asn']}"),
        ("peer", f"{line['peer']}, AS {line['peer_asn']}"),
        ("key", "yes" if line["has_key"] else "no"),
        ("bfd", "yes" if line["bfd"] else "no"),
        ("mtu", line["mtu"]),
        ("allowed", f"{', '.join(line['allowed'])}; at most {line['prefix_limit']}"),
        ("announced", ", ".join(line["announced"]) or "none"),
        ("learned", ", ".join(line["learned"]) or "none"),
        *(
            (f"{one['inside']}", f"seen by the company as {one['outside']}")
            for one in line["translations"]
        ),
        *(
            (f"{one['outside']} of the company", f"seen by jobs as {one['inside']}")
            for one in line["peer_translations"]
        ),
        ("refused", line["refused_count"]),
        ("created", describe_instant(line["created_ns"])),
    ]
    sys.stdout.write(format_pairs(facts) + "\n")
    if line["refused"]:
        sys.stdout.write("\n" + format_table(line["refused"], REFUSED_COLUMNS) + "\n")
    return 0


COLUMNS = (
    TableColumn("LINE", lambda row: row["id"]),
    TableColumn("VLAN", lambda row: row["vlan"], right=True),
    TableColumn("PEER", lambda row: row["peer"]),
    TableColumn("STATE", lambda row: row["state"]),
    TableColumn("LEARNED", lambda row: len(row["learned"]), right=True),
    TableColumn("REFUSED", lambda row: row["refused_count"], right=True),
    TableColumn("REASON", lambda row: row["reason"], wide=True),
    TableColumn("CREATED", lambda row: describe_instant(row["created_ns"]), wide=True),
)
REFUSED_COLUMNS = (
    TableColumn("REFUSED PREFIX", lambda row: row["prefix"]),
    TableColumn("REASON", lambda row: row["reason"]),
)
LINE_VERBS = {
    "line-create": _create_line,
    "line-delete": _delete_line,
    "line-list": _list_lines,
    "line-show": _show_line,
}
