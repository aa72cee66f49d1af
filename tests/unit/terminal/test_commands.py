"""The words that are no commands: the nearest one of ours is named."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpupool
from gpupool.cli.main import OTHER_WORDS, main
from gpupool.terminal.commands import SUMMARIES

SOURCES = Path(gpupool.__file__).parent


@pytest.mark.parametrize(
    ("typed", "ours"),
    [
        ("status", "gpupool ps"),
        ("cancel", "gpupool stop JOB"),
        ("kill", "gpupool stop JOB"),
        ("why", "gpupool explain JOB"),
        ("nvidia-smi", "gpupool gpus"),
        ("squeue", "gpupool ps"),
        ("apply", "gpupool submit -- COMMAND"),
    ],
)
def test_a_word_of_another_tool_is_answered_with_ours(
    typed: str, ours: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([typed]) == 2
    said = capsys.readouterr().err
    assert f"unknown command '{typed}'" in said
    assert f"try: {ours}" in said


def test_every_word_of_another_tool_leads_to_a_command_of_ours() -> None:
    assert not set(OTHER_WORDS) & set(SUMMARIES)
    assert {ours.split()[1] for ours in OTHER_WORDS.values()} <= set(SUMMARIES)


def list_hints(text: str) -> Iterator[str]:
    """The hints of errors in a module, without the values that are filled in."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.keyword) and node.arg == "hint":
            parts = (one.value for one in ast.walk(node.value) if isinstance(one, ast.Constant))
            yield "".join(part for part in parts if isinstance(part, str))


def test_every_hint_names_a_command_that_there_is() -> None:
    named = {
        word
        for path in SOURCES.rglob("*.py")
        for hint in list_hints(path.read_text())
        for word in re.findall(r"(?:^|[:;,]\s+)gpupool ([a-z][a-z-]*)", hint)
    }
    assert {"network", "gpus", "up"} <= named
    assert named <= {*SUMMARIES, "help"}
