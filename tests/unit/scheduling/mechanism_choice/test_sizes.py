"""Which sizes an offer serves, and what it takes beyond what is asked."""

from __future__ import annotations

from gpupool.base.units import GIB, MIB, WHOLE
from gpupool.model.claim import Shape
from gpupool.model.isolation.mechanism_offer import MechanismOffer, OfferedProfile, SizeClass
from gpupool.scheduling.mechanism_choice.sizes import fit_size, is_whole_card

CARD = 140 * GIB + 300
PROFILES = (OfferedProfile("3g", 428, 70 * GIB), OfferedProfile("1g", 142, 16 * GIB))
ANY = MechanismOffer("fence")
WHOLE_ONLY = MechanismOffer("whole", sizes=SizeClass.WHOLE)
CUT = MechanismOffer("mig", sizes=SizeClass.PROFILES, profiles=PROFILES)


def test_a_whole_card_is_all_compute_and_all_whole_mib() -> None:
    assert is_whole_card(Shape(WHOLE), CARD)
    assert is_whole_card(Shape(WHOLE, 140 * GIB), CARD)
    assert not is_whole_card(Shape(WHOLE, 139 * GIB), CARD)
    assert not is_whole_card(Shape(999), CARD)


def test_a_share_of_a_whole_card_mechanism_is_told_both_numbers() -> None:
    found = fit_size(WHOLE_ONLY, Shape(300, 8 * GIB), CARD)
    assert found.problem == (
        "it serves whole cards alone; 0.30 GPU (30 % compute) + 8192 MiB of "
        "1.00 GPU (100 % compute) + 143360 MiB is asked"
    )
    assert found.advice == "--gpu 1"
    assert not fit_size(WHOLE_ONLY, Shape(WHOLE), CARD).problem


def test_a_share_is_told_the_smallest_profile_that_holds_it() -> None:
    found = fit_size(CUT, Shape(100, 8 * GIB), CARD)
    assert found.advice == "--profile 1g"
    assert (found.spare_milli, found.spare_bytes) == (42, 8 * GIB)
    none = fit_size(CUT, Shape(500), CARD)
    assert none.problem.endswith("none holds 0.50 GPU (50 % compute) + 71680 MiB")
    assert not none.advice


def test_a_profile_is_served_by_its_name_alone() -> None:
    assert not fit_size(CUT, Shape(142, profile="1g"), CARD).problem
    assert fit_size(CUT, Shape(142, profile="2g"), CARD).problem == "no profile 2g; it has 3g, 1g"
    assert fit_size(ANY, Shape(142, profile="1g"), CARD).problem == (
        "it makes no partitions; 1g is asked"
    )


def test_more_memory_than_the_card_has_is_refused_with_both_sizes() -> None:
    assert fit_size(ANY, Shape(500, 16 * MIB), 8 * MIB).problem == (
        "the card has 8 MiB, 16 MiB is asked"
    )
