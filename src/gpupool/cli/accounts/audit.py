"""`gpupool audit`: what users did in the pool, and whether the log of it holds."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from gpupool.base.errors import BadOption
from gpupool.base.units import NANOS_PER_SECOND, parse_since
from gpupool.cli.accounts.audit_files import read_records, write_records
from gpupool.client.audit.log import AuditLog
from gpupool.terminal.context import CommandContext
from gpupool.terminal.listing import add_limit, describe_instant, show_list
from gpupool.terminal.output import TableColumn, count_noun, format_pairs, print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output, one_of
from gpupool.wire.audit.chain import ChainReading, ChainVerifier

FORMATS = ("jsonl", "csv")


def register(parser: CommandParser) -> None:
    parser.about = """
    Every request that changes something, every login and every refusal is a record: user, credential, address, what,
    the answer. Each record has the hash of the one before, so a change in the past shows. Admins and auditors read
    all, tenants' admins the records of their tenant. Records are kept for 400 days.
    """
    parser.examples = [
        "gpupool audit list --since 24h",
        "gpupool audit list --user ada --action DELETE",
        "gpupool audit list --object j-4k7q2m9x1c -o json",
        "gpupool audit export --since 2026-11 --until 2026-12 november.jsonl",
        "gpupool audit verify",
        "gpupool audit verify --expect HASH   HASH as `verify` or `head` printed it earlier",
        "gpupool audit verify --file november.jsonl",
    ]
    parser.add_verbs()
    listing = parser.add_verb("list", "records, the newest first")
    _add_filters(listing)
    add_limit(listing)
    add_output(listing)
    export = parser.add_verb("export", "write records to a new file, the oldest first")
    export.add_argument("file", metavar="FILE", help="a new file; - is the standard output")
    _add_filters(export)
    export.add_argument(
        "-o",
        "--output",
        default="jsonl",
        type=one_of("-o", *FORMATS),
        metavar="FORMAT",
        help="jsonl, which `verify` reads, or csv (default: jsonl)",
    )
    verify = parser.add_verb("verify", "compute the chain of hashes and compare it")
    verify.add_argument("--file", metavar="FILE", help="of `export`, in place of the pool's log")
    verify.add_argument(
        "--expect",
        metavar="HEAD",
        help="a head that was noted elsewhere, HASH or NUMBER:HASH: it must be in the log",
    )
    add_output(verify, OBJECT_FORMATS)
    head = parser.add_verb("head", "the last record's number and hash, to note elsewhere")
    add_output(head, OBJECT_FORMATS)


def _add_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--since", metavar="TIME", help="from then on: 2h, 2026-11, 2026-11-20")
    parser.add_argument("--until", metavar="TIME", help="before then")
    parser.add_argument("--user", metavar="USER", help="what this user did")
    parser.add_argument(
        "--action", metavar="TEXT", help="part of method and route: DELETE, /tokens, POST /login"
    )
    parser.add_argument("--object", metavar="NAME", help="about this: an id or a name")
    parser.add_argument("--tenant", metavar="TENANT", help="of this tenant")
    parser.add_argument("--kind", metavar="KIND", help="change, refusal, login, logout, request …")


def run(options: argparse.Namespace, context: CommandContext) -> int:
    return int(_VERBS[options.verb](options, context))


def _list_records(options: argparse.Namespace, context: CommandContext) -> int:
    return show_list(
        context,
        "audit",
        _read_filters(options) | {"order": "newest"},
        COLUMNS,
        options.output,
        limit=options.limit,
        wire=_wire_model,
        empty="no records",
    )


def _export(options: argparse.Namespace, context: CommandContext) -> int:
    records = AuditLog(context.api).iterate_records(order="oldest", **_read_filters(options))
    written = write_records(records, options.file, options.output)
    # The standard output may be the file.
    sys.stderr.write(f"{count_noun(written.records, 'record')} to {options.file}")
    sys.stderr.write(f", the last is {written.head}\n" if written.head else "\n")
    return 0


def _verify(options: argparse.Namespace, context: CommandContext) -> int:
    expected = _parse_expected(options.expect)
    verifier = ChainVerifier(expected)
    for record in _open_records(options.file, context):
        if isinstance(record, str):
            verifier.reject(record)
        elif verifier.add(record):
            continue
        break
    found = verifier.read_result()
    check_reading(found, is_file=options.file is not None)
    if options.output == "table":
        sys.stdout.write(format_pairs(_describe_reading(found)) + "\n")
    else:
        print_data(_make_data(found), options.output)
    check_expected(found, expected)
    return 0


def _open_records(file: str | None, context: CommandContext) -> Iterator[Mapping[str, Any] | str]:
    return AuditLog(context.api).iterate_records() if file is None else read_records(file)


def _show_head(options: argparse.Namespace, context: CommandContext) -> int:
    head = AuditLog(context.api).head()
    if options.output != "table":
        print_data(head.model_dump(), options.output)
        return 0
    pairs = [
        ("head", f"{head.seq}:{head.hash}"),
        ("at", None if head.at_ns is None else describe_instant(head.at_ns)),
        ("records", head.records),
        ("kept", f"{head.keep_days} days, then cut by whole months"),
        ("next", f"gpupool audit verify --expect {head.seq}:{head.hash}"),
    ]
    sys.stdout.write(format_pairs(pairs) + "\n")
    return 0


def check_reading(found: ChainReading, *, is_file: bool) -> None:
    """Raise what makes a log unfit.

    Raises:
        AuditChainBroken: a record does not fit.
        AuditBeginMissing: the pool's own log lacks records that no checkpoint attests.
    """
    from gpupool.base.errors import AuditBeginMissing, AuditChainBroken

    if found.fault is not None:
        raise AuditChainBroken(
            f"record {found.fault.seq} does not hold: {found.fault.reason}; "
            f"{count_noun(found.records, 'record')} before it hold",
            hint="compare with an earlier export:  gpupool audit verify --file FILE",
            seq=found.fault.seq,
            records=found.records,
        )
    if not is_file and not found.is_whole:
        raise AuditBeginMissing(
            f"the log begins at record {found.first_seq}, and no checkpoint attests what was before",
            hint="compare with an earlier export:  gpupool audit verify --file FILE",
            first_seq=found.first_seq,
        )


def check_expected(found: ChainReading, expected: str | None) -> None:
    """Raise AuditHeadMissing if a noted head is in no record."""
    from gpupool.base.errors import AuditHeadMissing

    if expected is not None and found.expected_seq is None:
        raise AuditHeadMissing(
            f"none of {count_noun(found.records, 'record')} has the hash {expected}",
            hint="the log was cut at its end, restored from a backup, or written anew; or retention "
            "has cut the record",
            head=f"{found.head.seq}:{found.head.hash}",
        )


def _read_filters(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "since_ns": _parse_instant(options.since),
        "until_ns": _parse_instant(options.until),
        "user": options.user,
        "action": options.action,
        "object": options.object,
        "tenant": options.tenant,
        "kind": options.kind,
    }


def _parse_instant(text: str | None) -> int | None:
    if text is None:
        return None
    return int(parse_since(text, datetime.now(UTC)).timestamp()) * NANOS_PER_SECOND


def _parse_expected(text: str | None) -> str | None:
    if text is None:
        return None
    digest = text.rpartition(":")[2].strip().lower()
    if len(digest) != 64 or any(char not in "0123456789abcdef" for char in digest):
        raise BadOption(
            f"--expect {text!r} is no head: got {len(digest)} characters, expected 64 hex digits",
            hint="gpupool audit head  prints one",
        )
    return digest


def _describe_reading(found: ChainReading) -> list[tuple[str, object]]:
    begin = "from the first on" if found.first_seq in (None, 1) else f"from {found.first_seq} on"
    if found.first_seq not in (None, 1):
        begin += (
            "; a checkpoint attests what retention cut"
            if found.is_whole
            else "; what is before is not in the file"
        )
    pairs: list[tuple[str, object]] = [
        ("holds", f"{count_noun(found.records, 'record')}, {begin}"),
        ("first", None if found.first_ns is None else describe_instant(found.first_ns)),
        ("last", None if found.last_ns is None else describe_instant(found.last_ns)),
        ("head", f"{found.head.seq}:{found.head.hash}"),
        ("lost", f"{count_noun(found.lost_refusals, 'refusal')}, as the log itself says"),
    ]
    if found.expected_seq is not None:
        later = found.head.seq - found.expected_seq
        pairs.append(
            (
                "expected",
                f"is record {found.expected_seq}; {count_noun(later, 'record')} came later",
            )
        )
    return pairs


def _make_data(found: ChainReading) -> dict[str, Any]:
    return {
        "records": found.records,
        "first_seq": found.first_seq,
        "first_ns": found.first_ns,
        "last_ns": found.last_ns,
        "head_seq": found.head.seq,
        "head_hash": found.head.hash,
        "is_whole": found.is_whole,
        "lost_refusals": found.lost_refusals,
        "expected_seq": found.expected_seq,
    }


def _wire_model() -> Any:
    from gpupool.wire.audit.records import AuditRecordOut

    return AuditRecordOut


def _describe_result(row: Mapping[str, Any]) -> str | None:
    status = row.get("status")
    if status is None:
        return None
    code = row.get("code")
    return str(status) if code is None else f"{status} {code}"


def _describe_act(row: Mapping[str, Any]) -> str:
    times = row.get("times", 1)
    action = str(row.get("action", ""))
    return f"{action} ({times} times)" if times > 1 else action


COLUMNS = (
    TableColumn("SEQ", lambda row: row["seq"]),
    TableColumn("AT", lambda row: describe_instant(row["at_ns"])),
    TableColumn("KIND", lambda row: row["kind"]),
    TableColumn("USER", lambda row: row.get("user")),
    TableColumn("FROM", lambda row: row.get("source")),
    TableColumn("ACTION", _describe_act),
    TableColumn("OBJECTS", lambda row: " ".join(row.get("objects", ()))),
    TableColumn("ANSWER", _describe_result),
    TableColumn("TENANT", lambda row: row.get("tenant"), wide=True),
    TableColumn("ROLE", lambda row: row.get("role"), wide=True),
    TableColumn("CREDENTIAL", lambda row: row.get("credential"), wide=True),
    TableColumn("HASH", lambda row: row["hash"][:16], wide=True),
)
_VERBS = {"list": _list_records, "export": _export, "verify": _verify, "head": _show_head}
