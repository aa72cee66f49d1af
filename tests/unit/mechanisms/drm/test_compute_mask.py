"""Compute units of shares of AMD cards: disjoint, stable, and advice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpupool.base.errors import StaleGeneration
from gpupool.mechanisms.contract import AllocationView, EnforcementLevels, FenceLevel
from gpupool.mechanisms.drm import ComputeMask
from gpupool.mechanisms.drm.compute_mask import VARIABLE, choose_range
from gpupool.model.device import RUNTIME_ID, Device
from tests.unit.mechanisms.drm.fake_cgroups import CARD, CARDS, make_view, prepare_share

LAYER = ComputeMask()
NOTHING = EnforcementLevels()


def make_share(name: str, milli: int = 250, cards: tuple[Device, ...] = (CARD,)) -> AllocationView:
    return replace(make_view(milli=milli, cards=cards), allocation=name)


def apply(view: AllocationView, state: Path) -> Any:
    return LAYER.prepare(view, prepare_share(view, state), state)


def test_a_quarter_of_a_card_has_a_quarter_of_its_units(tmp_path: Path) -> None:
    prepared = apply(make_share("al-1"), tmp_path)
    assert prepared.env[VARIABLE] == "0:0-25"
    assert prepared.env["ROCR_VISIBLE_DEVICES"] == "GPU-1"
    assert prepared.levels == EnforcementLevels(compute=FenceLevel.ADVISORY)
    assert LAYER.read_enforcement("al-1", NOTHING, tmp_path).compute is FenceLevel.ADVISORY


def test_shares_of_one_card_have_units_of_their_own(tmp_path: Path) -> None:
    masks = [apply(make_share(f"al-{n}"), tmp_path).env[VARIABLE] for n in range(4)]
    assert masks == ["0:0-25", "0:26-51", "0:52-77", "0:78-103"]
    LAYER.unprepare("al-1", 1, tmp_path)
    assert apply(make_share("al-5"), tmp_path).env[VARIABLE] == "0:26-51"


def test_where_none_is_free_those_with_the_fewest_neighbours_are_taken(tmp_path: Path) -> None:
    apply(make_share("al-1", 900), tmp_path)
    assert apply(make_share("al-2", 500), tmp_path).env[VARIABLE] == "0:52-103"


def test_cards_are_counted_in_the_order_of_the_grants(tmp_path: Path) -> None:
    apply(make_share("al-1", cards=(CARDS[1],)), tmp_path)
    prepared = apply(make_share("al-2", cards=(CARDS[1], CARDS[0])), tmp_path)
    assert prepared.env["ROCR_VISIBLE_DEVICES"] == "GPU-2,GPU-1"
    assert prepared.env[VARIABLE] == "0:26-51;1:0-25"


def test_a_job_that_starts_again_keeps_its_units(tmp_path: Path) -> None:
    apply(make_share("al-1"), tmp_path)
    second = apply(make_share("al-2"), tmp_path).env[VARIABLE]
    LAYER.unprepare("al-1", 1, tmp_path)
    assert apply(make_share("al-2"), tmp_path).env[VARIABLE] == second


@pytest.mark.parametrize(
    ("architecture", "milli", "expected"),
    [
        ("cdna2", 250, (0, 26)),
        ("gfx942", 1, (0, 1)),
        # Only both units of a workgroup processor can be masked.
        ("gfx1101", 255, (0, 26)),
        ("rdna3", 1, (0, 2)),
    ],
)
def test_units_come_in_pairs_where_the_chip_has_them_so(
    architecture: str, milli: int, expected: tuple[int, int]
) -> None:
    view = make_view(milli=milli, cards=(replace(CARD, architecture=architecture),))
    assert choose_range(view.granted[0], ()) == expected


def test_another_size_of_a_running_job_is_held_by_nothing(tmp_path: Path) -> None:
    apply(make_share("al-1"), tmp_path)
    LAYER.resize(replace(make_share("al-1"), generation=2), tmp_path)
    assert LAYER.read_enforcement("al-1", NOTHING, tmp_path).compute is FenceLevel.ADVISORY
    LAYER.resize(replace(make_share("al-1", 500), generation=3), tmp_path)
    assert LAYER.read_enforcement("al-1", NOTHING, tmp_path) == NOTHING
    LAYER.resize(make_share("al-9"), tmp_path)
    assert LAYER.read_enforcement("al-9", NOTHING, tmp_path) == NOTHING


def test_an_older_generation_changes_nothing(tmp_path: Path) -> None:
    apply(replace(make_share("al-1"), generation=2), tmp_path)
    with pytest.raises(StaleGeneration):
        LAYER.unprepare("al-1", 1, tmp_path)
    with pytest.raises(StaleGeneration):
        LAYER.resize(make_share("al-1"), tmp_path)
    LAYER.unprepare("al-1", 2, tmp_path)
    LAYER.unprepare("al-1", 2, tmp_path)


@pytest.mark.parametrize(
    "card",
    [
        replace(CARD, vendor="nvidia"),
        replace(CARD, simulated=True),
        replace(CARD, multiprocessors=None),
        replace(CARD, labels={RUNTIME_ID: "0,1,2,3"}),
    ],
)
def test_cards_without_a_mask_are_left_alone(tmp_path: Path, card: Device) -> None:
    view = make_share("al-1", cards=(card,))
    assert LAYER.explain_absence(view)
    prepared = prepare_share(view, tmp_path)
    assert LAYER.prepare(view, prepared, tmp_path) is prepared


def test_a_job_without_fence_has_no_mask() -> None:
    assert LAYER.explain_absence(replace(make_share("al-1"), fence=False)) == (
        "the job asked for no fence"
    )
