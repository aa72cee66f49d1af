"""Words of `template run`: which are the command's own, and which are values of fields."""

from __future__ import annotations

import pytest

from gpupool.base.errors import BadOption
from gpupool.cli.templates.field_words import read_fields
from gpupool.terminal.parser import parse_command


def read(*words: str) -> tuple[dict[str, str | list[str]], object]:
    options = parse_command("template", ["run", *words])
    return read_fields(options.command or (), options.set), options


def test_options_that_the_command_lacks_are_fields() -> None:
    values, options = read(
        *("training", "--script", "t.py", "--gpu=0.5", "--max-length", "-1"),
        *("--name", "one", "--set", "memory=8GiB", "-o", "json", "--dry-run"),
    )
    assert values == {"script": "t.py", "gpu": "0.5", "max_length": "-1", "memory": "8GiB"}
    assert (options.template, options.name, options.output) == ("training", "one", "json")  # type: ignore[attr-defined]
    assert options.dry_run  # type: ignore[attr-defined]


def test_words_after_two_dashes_are_the_arguments_as_they_are() -> None:
    values, _ = read("training", "--script", "t.py", "--", "--gpu", "a b", "--", "-o")
    assert values == {"script": "t.py", "arguments": ["--gpu", "a b", "--", "-o"]}


def test_a_field_that_is_given_twice_is_a_list() -> None:
    values, _ = read("sweep", "--set", "p=lr=0.1,0.2", "--set", "p=bs=8", "--q", "1", "--q", "2")
    assert values == {"p": ["lr=0.1,0.2", "bs=8"], "q": ["1", "2"]}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("x", "--gpu"), "--gpu needs a value"),
        (("x", "--gpu", "--memory", "1"), "--gpu needs a value"),
        (("x", "--set", "gpu"), "is no value"),
        (("x", "--version", "0"), "whole number from 1"),
        (("x", "y"), "one word too many"),
    ],
)
def test_what_cannot_be_read_is_refused(words: tuple[str, ...], problem: str) -> None:
    with pytest.raises(BadOption, match=problem):
        read(*words)
