"""The plugin's command line is read and refused with what to type."""

from __future__ import annotations

import pytest

from gpupool.kubernetes.plugin.main import main


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["mpa"], 2, "did you mean: kubectl gpupool map"),
        (["map", "--nod", "x"], 2, "GP-1005"),
        (["map", "--kubeconfig", "/nowhere"], 2, "there is no kubeconfig at /nowhere"),
        (["adopt"], 2, "missing: NODE"),
        (["adopt", "n0", "--mode", "dra"], 2, "one of: slot, whole"),
    ],
)
def test_a_command_line_that_cannot_be_meant_is_refused_with_what_to_type(
    words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words, {}) == code
    assert said in capsys.readouterr().err


def test_every_command_has_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    from gpupool.kubernetes.plugin import COMMANDS

    for name in COMMANDS:
        assert main([name, "--help"], {}) == 0
        assert f"kubectl gpupool {name}: " in capsys.readouterr().out
