"""`gpupool secrets`: the key that encrypts what the pool stores of passwords and tokens of others."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.output import count_noun, print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output


def register(parser: CommandParser) -> None:
    parser.about = """
    Signing secrets and URLs of webhooks, the password of the mail server, secrets of identity providers and of
    authenticators are encrypted in the database. The key is in a file outside of it: secrets/secret.key in the state
    directory, or the file that GPUPOOL_SECRET_KEY_FILE names. It is made with the first secret. Keep a copy of it apart
    from backups; servers that share a database need the same file.

    rotate makes a new key and encrypts every secret by it. Older keys stay in the file for older backups, unless
    --drop-old is given. If the key is lost, --lost makes a new one: the pool can store secrets again, and those that no
    key opens must be set anew.
    """
    parser.examples = [
        "gpupool secrets show",
        "gpupool secrets rotate",
        "gpupool secrets rotate --drop-old",
    ]
    parser.add_verbs()
    show = parser.add_verb("show", "the key, its file, and whether secrets can be used")
    add_output(show, OBJECT_FORMATS)
    rotate = parser.add_verb("rotate", "encrypt every secret by a new key")
    rotate.add_argument(
        "--drop-old", action="store_true", help="forget older keys, also for older backups"
    )
    rotate.add_argument(
        "--lost", action="store_true", help="the key is lost: give up what no key opens"
    )
    add_output(rotate, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    return int(_VERBS[options.verb](options, context))


def _show(options: argparse.Namespace, context: CommandContext) -> int:
    found = context.api.request("GET", "secrets")
    _print_state(found, options.output)
    return 0 if found["problem"] is None else 3


def _rotate(options: argparse.Namespace, context: CommandContext) -> int:
    body = {"drop_old": options.drop_old, "lost": options.lost}
    done = context.api.request("POST", "secrets/rotate", body, timeout=120)
    _print_state(done, options.output)
    if options.output == "table" and done["key_id"] is not None:
        print_notice(f"copy {done['key_file']} to a safe place, and to every server of this pool")
    return 0


def _print_state(found: dict[str, Any], output: str) -> None:
    if output != "table":
        print_data(found, output)
        return
    problem = found["problem"]
    older = f", {count_noun(found['older_keys'], 'older key')}" if found["older_keys"] else ""
    lines = [
        ("key", found["key_id"] or "--"),
        ("file", f"{found['key_file']}{older}"),
        ("secrets", str(found["secrets"])),
        ("state", "ok" if problem is None else f"{problem['code']}: {problem['text']}"),
    ]
    if problem is not None:
        lines.append(("next", problem["next"]))
    sys.stdout.writelines(f"{name:<8} {text}\n" for name, text in lines)


_VERBS = {"show": _show, "rotate": _rotate}
