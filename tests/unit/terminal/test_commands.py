"""The words that are no commands: the nearest one of ours is named."""

from __future__ import annotations

import pytest

from gpupool.cli.main import OTHER_WORDS, main
from gpupool.terminal.commands import SUMMARIES


@pytest.mark.parametrize(
    ("typed", "ours"),
    [
        ("status", "gpupool ps"),
        ("cancel", "gpupool stop JOB"),
        ("kill", "gpupool stop JOB"),
        ("why", "gpupool explain JOB"),
        ("nvidia-smi", "gpupool gpus"),
        ("squeue", "gpupool ps"),
        ("sbatch", "gpupool submit -- COMMAND"),
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
