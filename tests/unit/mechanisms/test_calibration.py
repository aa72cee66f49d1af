"""Figures that were measured on a card are found again by its model; what cannot be understood is
said, not guessed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpupool.base.errors import StateUnusable
from gpupool.mechanisms.calibration import FILE, find_calibration, record_figures
from gpupool.model.device import Device

MIB = 1 << 20
H200 = Device("GPU-1", 0, "nvidia", "NVIDIA H200", "H200", 141 << 30, compute_capability=(9, 0))
L4 = Device("GPU-2", 1, "nvidia", "NVIDIA L4", "L4", 24 << 30, compute_capability=(8, 9))


def test_what_is_recorded_is_what_the_fence_charges_by_and_other_models_keep_their_guess(
    tmp_path: Path,
) -> None:
    guess = find_calibration(L4, tmp_path)
    record_figures(
        tmp_path / FILE,
        "H200",
        {"context_bytes": 530 * MIB, "granule_bytes": 4 * MIB, "launch_ns": 1900},
    )
    found = find_calibration(H200, tmp_path)
    assert (found.context_bytes, found.granule_bytes, found.measured) == (530 * MIB, 4 * MIB, True)
    assert (find_calibration(L4, tmp_path), guess.measured) == (guess, False)


def test_a_second_card_is_put_beside_the_first_and_the_same_card_anew_replaces_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / FILE
    for model, size in (("H200", 500), ("L4", 160), ("H200", 510)):
        record_figures(path, model, {"context_bytes": size * MIB, "granule_bytes": 2 * MIB})
    told = json.loads(path.read_text())
    assert told["version"] == 1
    assert {model: one["context_bytes"] // MIB for model, one in told["cards"].items()} == {
        "H200": 510,
        "L4": 160,
    }
    assert [left.name for left in tmp_path.iterdir()] == [FILE]


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "[]",
        '{"version": 2, "cards": {}}',
        '{"version": 1, "cards": {"L4": {"context_bytes": 1}}}',
        '{"version": 1, "cards": {"L4": {"context_bytes": -1, "granule_bytes": 2097152}}}',
        '{"version": 1, "cards": {"L4": {"context_bytes": 1, "granule_bytes": 0}}}',
    ],
)
def test_a_file_of_something_else_is_refused_when_read_and_never_overwritten(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / FILE
    path.write_text(text)
    with pytest.raises(StateUnusable, match="cannot be understood"):
        find_calibration(L4, tmp_path)
    with pytest.raises(StateUnusable, match="cannot be understood"):
        record_figures(path, "L4", {"context_bytes": 1, "granule_bytes": 1})
    assert path.read_text() == text


def test_where_nothing_can_be_written_or_read_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(StateUnusable, match="cannot be written"):
        record_figures(tmp_path / "none" / FILE, "L4", {"context_bytes": 1, "granule_bytes": 1})
    with pytest.raises(StateUnusable, match="cannot be read"):
        record_figures(tmp_path, "L4", {"context_bytes": 1, "granule_bytes": 1})
