"""The options of run and submit, read from the table and by argparse: both must understand the
same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.base.errors import BadOption, GpupoolError
from gpupool.cli.main import main
from gpupool.terminal.commands import GLOBAL_OPTIONS
from gpupool.terminal.parser import HelpShown, parse_command
from gpupool.terminal.share_options import OF, read_plain, split_command

REPEATED = ("label", "volume", "env")
WORDS = sorted({flag for table in OF.values() for flags, *_ in table for flag in flags})


def read(name: str, words: list[str]) -> dict[str, Any] | None:
    options = read_plain(name, words)
    return None if options is None else vars(options)


def parsed(name: str, words: list[str]) -> dict[str, Any]:
    found = dict(vars(parse_command(name, words)))
    return {key: [] if key in REPEATED and value is None else value for key, value in found.items()}


@pytest.mark.parametrize(
    ("words", "options", "command"),
    [
        (["--gpu", "0.3", "--", "a", "-b"], ["--gpu", "0.3"], ["a", "-b"]),
        (["--gpu", "0.3", "a", "--gpu", "1"], ["--gpu", "0.3"], ["a", "--gpu", "1"]),
        (["--gpu=0.3", "--no-wait", "a"], ["--gpu=0.3", "--no-wait"], ["a"]),
        (["--gpu", "0.3", "--", "--", "x"], ["--gpu", "0.3"], ["--", "x"]),
        (["-q", "-"], ["-q"], ["-"]),
        (["--gpu", "--", "x"], ["--gpu", "--"], ["x"]),
        (["true"], [], ["true"]),
        ([], [], []),
    ],
)
def test_the_command_begins_after_two_dashes_or_at_the_first_word_that_is_no_option(
    words: list[str], options: list[str], command: list[str]
) -> None:
    assert split_command("run", words) == (options, command)


EVERYTHING = """
--gpu 0.3 --mem 8GiB --count 2 --model H200 --label a=b --label c=d --sharing burst --name n --priority high
--max-time=2h --tenant t --project p --no-wait --no-fence -q --cpus 4 --host-memory 8GiB --topology rack --preemptible
--requeue --exact --no-gang --keep-output --no-keep-output --reservation r
--profile 1g --isolation hard --goal latency --host vm
--dry-run --preview --image a:1
--volume /a:/b --volume /c:/d:ro --pull never --user u --workdir /w --env A=b --env C --registry-auth f
--network lab --security-group g --security-group h --address 10.0.0.9 --when-idle suspend --idle-after=5m
--after j:any --retries 3 --retry-backoff=30s:10m -- x y
"""


def test_every_option_is_read_plainly() -> None:
    words = EVERYTHING.split()
    found = read("run", words)
    assert found == {
        "gpu": "0.3", "memory": "8GiB", "count": "2", "model": "H200", "label": ["a=b", "c=d"], "sharing": "burst",
        "name": "n", "priority": "high", "max_time": "2h", "tenant": "t", "project": "p", "no_wait": True,
        "no_gang": True, "keep_output": True, "no_keep_output": True,
        "no_fence": True, "quiet": True, "verbose": False, "state_dir": None, "no_color": False, "lang": None,
        "command": ["x", "y"],
        "cpus": "4", "host_memory": "8GiB", "topology": "rack", "preemptible": True, "requeue": True, "exact": True,
        "reservation": "r", "profile": "1g", "isolation": "hard", "goal": "latency", "host": "vm", "dry_run": True,
        "preview": True,
        "image": "a:1", "volume": ["/a:/b", "/c:/d:ro"], "pull": "never",
        "user": "u", "workdir": "/w", "env": ["A=b", "C"], "registry_auth": "f", "network": "lab",
        "security_group": ["g", "h"], "address": "10.0.0.9",
        "when_idle": "suspend", "idle_after": "5m", "after": ["j:any"], "retries": "3", "retry_backoff": "30s:10m",
    }  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        ["--gpuu", "0.3", "x"],
        ["--gpu"],
        ["--help"],
        ["-h"],
        ["--priority", "-10", "x"],
        ["--no-wait=1", "x"],
        ["-o=json", "x"],
        ["--array", "3", "x"],
    ],
)
def test_what_is_not_plain_at_sight_is_left_to_argparse(words: list[str]) -> None:
    assert read_plain("run", words) is None


@given(
    st.sampled_from(["run", "submit"]),
    st.lists(st.sampled_from([*WORDS, "0.3", "x", "--", "-x", "--gpu=1", "a=b"])),
)
def test_whatever_is_read_plainly_argparse_reads_the_same(name: str, words: list[str]) -> None:
    plain = read(name, words)
    if plain is not None and plain.get("output") in (None, "text", "json"):
        assert parsed(name, words) == plain


@given(
    st.sampled_from(["run", "submit"]),
    st.lists(st.sampled_from([*WORDS, "0.3", "x", "--", "-x", "--gpu=1"])),
)
def test_argparse_never_answers_with_anything_but_options_help_or_a_coded_error(
    name: str, words: list[str]
) -> None:
    try:
        parse_command(name, words)
    except (GpupoolError, HelpShown):
        return


def test_a_negative_priority_is_understood() -> None:
    assert parse_command("run", ["--priority", "-10", "x"]).priority == "-10"


def test_no_option_means_two_things() -> None:
    for table in OF.values():
        flags = [flag for names, *_ in (*table, *GLOBAL_OPTIONS) for flag in names]
        assert len(flags) == len(set(flags))


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (
            ["run", "--gpuu", "0.3", "x"],
            "gpupool run: unknown option --gpuu",
            "did you mean --gpu?  gpupool run --help",
        ),
        (["run", "--gpu"], "--gpu needs a value", "gpupool run --help"),
        (
            ["run", "--no-wait=1", "x"],
            "--no-wait: ignored explicit argument '1'",
            "gpupool run --help",
        ),
        (
            ["submit", "-o", "jso", "x"],
            "-o 'jso' is not known",
            "did you mean json?  one of: text, json",
        ),
        (["ps", "--state", "runing"], "--state 'runing' is not known", None),
        (["ps", "-o", "xml"], "-o 'xml' is not known", "one of: table, wide, json, yaml, csv"),
        (["ps", "a", "b"], "gpupool ps: 'b' is one word too many", "gpupool ps --help"),
        (
            ["tenant"],
            "gpupool tenant needs one of: create, list, show, delete",
            "gpupool tenant --help",
        ),
        (["tenant", "crate", "x"], None, None),
        (
            ["tenant", "create", "x", "--gpu", "1"],
            "gpupool tenant create: unknown option --gpu",
            None,
        ),
        (
            ["ps", "--limit", "0"],
            "--limit 0: the number of rows is a whole number from 1 to 1000000",
            None,
        ),
        (["logs"], "missing: JOB", "gpupool logs --help"),
        (["--state-dir"], "--state-dir needs a directory", None),
    ],
)
def test_a_mistyped_line_is_answered_with_what_was_probably_meant(
    words: list[str], message: str | None, hint: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == BadOption.exit_code
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.startswith("gpupool: GP-1005: ")
    if message is not None:
        assert first == f"gpupool: GP-1005: {message}"
    if hint is not None:
        assert rest == [f"  {hint}"]
