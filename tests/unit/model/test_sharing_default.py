"""A node's default sharing: for claims that name none, and never a kind that takes compute away."""

import pytest

from gpupool.base.errors import BadOption
from gpupool.base.units import GIB, WHOLE
from gpupool.model.claim import Shape, SharingKind
from gpupool.model.sharing_default import (
    SHARING_LABEL,
    check_default,
    choose_sharing,
    explain_ignored_label,
)

BURST = {SHARING_LABEL: "burst"}
UNNAMED = Shape(300, 8 * GIB, names_sharing=False)


def test_a_claim_that_names_no_sharing_takes_the_nodes_default() -> None:
    assert choose_sharing(UNNAMED, BURST) is SharingKind.BURST
    assert choose_sharing(UNNAMED, {}) is SharingKind.FIXED


@pytest.mark.parametrize("sharing", [SharingKind.FIXED, SharingKind.OFFLINE])
def test_a_claim_that_names_its_sharing_keeps_it_on_every_node(sharing: SharingKind) -> None:
    assert choose_sharing(Shape(300, 8 * GIB, sharing=sharing), BURST) is sharing


@pytest.mark.parametrize(
    "shape",
    [Shape(WHOLE, names_sharing=False), Shape(142, profile="1g.18gb", names_sharing=False)],
    ids=["whole card", "partition"],
)
def test_what_has_no_neighbour_stays_fixed(shape: Shape) -> None:
    assert choose_sharing(shape, BURST) is SharingKind.FIXED


@pytest.mark.parametrize("label", ["offline", "best-effort", "lend"])
def test_a_default_without_a_promise_is_refused_and_changes_no_claim(label: str) -> None:
    with pytest.raises(BadOption, match="a node's default promises compute"):
        check_default({SHARING_LABEL: label})
    assert choose_sharing(UNNAMED, {SHARING_LABEL: label}) is SharingKind.FIXED


def test_labels_without_a_default_are_accepted() -> None:
    check_default({"rack": "r1"})
    check_default(BURST)


def test_shapes_that_differ_in_this_alone_are_one_class_for_the_scheduler() -> None:
    named = Shape(300, 8 * GIB)
    assert named == UNNAMED
    assert hash(named) == hash(UNNAMED)


def test_ignored_label_is_explained_and_no_other() -> None:
    assert "offline is ignored" in explain_ignored_label({SHARING_LABEL: "offline"})
    assert explain_ignored_label(BURST) == explain_ignored_label({"rack": "r1"}) == ""
