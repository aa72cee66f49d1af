"""`gpupool console`: the link alone for scripts, and what to know about it for people."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.golden import AnswerWith, TypedLine
from tests.unit.cli.sample import NOON

ADDRESS = "http://127.0.0.1:40331"
LINK = {
    "url": f"{ADDRESS}/login#token=gpp_secret",
    "address": ADDRESS,
    "user": "alice",
    "expires_ns": NOON,
}


def test_the_link_is_alone_on_stdout(answer_with: AnswerWith, type_line: TypedLine) -> None:
    answer_with("POST", "console", LINK, 201)
    assert type_line("console") == (
        0,
        f"{LINK['url']}\n",
        (
            "gpupool: logs one browser in as alice, once, until 2026-11-21T12:00:00Z\n"
            "gpupool: from another machine first:  ssh -L 40331:127.0.0.1:40331 THIS-MACHINE\n"
        ),
    )


def test_scripts_get_the_link_and_nothing_else(
    answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("POST", "console", LINK, 201)
    assert type_line("console --print-url") == (0, f"{LINK['url']}\n", "")


@pytest.mark.parametrize("option", ["", " --print-url"])
def test_as_json_it_is_the_whole_answer(
    option: str, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("POST", "console", LINK, 201)
    code, out, err = type_line(f"console -o json{option}")
    assert (code, json.loads(out), err) == (0, LINK, "")


def test_an_address_of_the_network_needs_no_forwarding(
    answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("POST", "console", LINK | {"address": "https://gpu.example.org:8443"}, 201)
    assert "ssh" not in type_line("console")[2]
