"""What would help a waiting claim, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.base.units import GIB
from gpupool.base.units import NANOS_PER_SECOND as SECOND
from gpupool.model.claim import (
    NETWORK_LABEL,
    NO_NETWORK_LABEL,
    PLANES_LABEL,
    describe_planes_label,
)
from gpupool.scheduling.reasons import help_messages
from tests.support.scheduling_builders import shape

INSTANT = "1970-01-01T00:01:40Z"


def test_a_shape_is_suggested_with_its_model_and_labels() -> None:
    assert help_messages.suggest_shape(shape(400, GIB, model="H200", zone="a")) == (
        "ask for 0.40 GPU (40 % compute) + 1024 MiB on H200 with zone=a: it fits now"
    )


def test_one_card_to_adopt_reads_differently_from_several() -> None:
    assert help_messages.suggest_adopt(1) == (
        "adopt the matching card that is only observed: gpupool adopt"
    )
    assert help_messages.suggest_adopt(4).startswith("adopt one of the 4 matching cards that are")


def test_own_jobs_and_their_cards_have_the_right_plural() -> None:
    assert help_messages.suggest_own_jobs("nlp", 2, 1) == (
        "stop 2 jobs of your own: it would start on the card that tenant nlp holds"
    )
    assert "stop 1 job of" in help_messages.suggest_own_jobs("nlp", 1, 3)
    assert "on the 3 cards" in help_messages.suggest_own_jobs("nlp", 1, 3)


def test_a_promise_an_estimate_and_a_chance_are_told_apart() -> None:
    at = 100 * SECOND
    assert help_messages.suggest_wait_until(at, promised=True, chance_pct=40) == (
        f"wait: it starts at {INSTANT} at the latest"
    )
    assert help_messages.suggest_wait_until(at, promised=False, chance_pct=40) == (
        f"wait: it starts about {INSTANT}, 4 of 10 start by then"
    )
    assert help_messages.suggest_wait_until(at, promised=False).startswith(
        f"wait until about {INSTANT}: "
    )
    assert help_messages.format_start(at, promised=True, chance_pct=40) == f"by {INSTANT}"


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ((("zone", "a"),), "gpupool gpus -o wide"),
        ((NETWORK_LABEL,), "gpupool network status"),
        ((NETWORK_LABEL, describe_planes_label("acme")), "gpupool network plane-list"),
        ((PLANES_LABEL,), "gpupool network plane-list"),
        ((describe_planes_label("acme"), NO_NETWORK_LABEL), "submit it again with --network NAME"),
    ],
)
def test_labels_of_the_pool_have_a_command_of_their_own(
    labels: tuple[tuple[str, str], ...], words: str
) -> None:
    wanted = replace(shape(100), labels=labels)
    assert words in help_messages.suggest_labelled_nodes(wanted)
