from pathlib import Path

import pytest

from gpupool.mechanisms.card_settings.vendor_tool import NvidiaSmi


def write_tool(folder: Path, text: str) -> NvidiaSmi:
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return NvidiaSmi(str(path))


def test_what_it_prints_and_how_it_ends_is_returned(tmp_path: Path) -> None:
    good = write_tool(tmp_path, 'echo "got $*"').run("-i", "GPU-1")
    assert (good.success, good.text) == (True, "got -i GPU-1")
    bad = write_tool(tmp_path, "echo no devices >&2; exit 6").run()
    assert (bad.success, bad.text) == (False, "no devices")


def test_a_missing_tool_is_an_answer() -> None:
    answer = NvidiaSmi("/nonexistent/nvidia-smi").run("-L")
    assert not answer.success
    assert "was not found" in answer.text


def test_a_tool_that_hangs_is_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpupool.mechanisms.card_settings.vendor_tool.TIMEOUT_SECONDS", 0.1)
    answer = write_tool(tmp_path, "exec sleep 60").run("-L")
    assert not answer.success
    assert "did not end in 0.1 s" in answer.text
