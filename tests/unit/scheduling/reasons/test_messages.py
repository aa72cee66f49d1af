"""Plurals, sizes and lists in sentences."""

from gpupool.model.claim import RejectionReason
from gpupool.scheduling.filtering.feasibility import ORDER
from gpupool.scheduling.reasons import messages


def test_every_reason_that_a_card_can_have_has_words() -> None:
    for reason in ORDER:
        singular, plural = (
            messages.describe_unavailable(reason, 1),
            messages.describe_unavailable(reason, 2),
        )
        assert singular.startswith("1 card ")
        assert plural.startswith("2 cards ")
        assert singular.removeprefix("1 card ") != plural.removeprefix("2 cards ")


def test_one_card_all_cards_and_some_cards_read_differently() -> None:
    most = {RejectionReason.COMPUTE: "0.40", RejectionReason.CARD_TOO_SMALL: "15360 MiB"}
    assert (
        messages.describe_cards_out([(RejectionReason.COMPUTE, 1)], 1, most)
        == "the only card lacks compute (free: 0.40)"
    )
    assert (
        messages.describe_cards_out([(RejectionReason.COMPUTE, 3)], 3, most)
        == "all 3 cards lack compute (most free: 0.40)"
    )
    assert messages.describe_cards_out(
        [(RejectionReason.COMPUTE, 2), (RejectionReason.CARD_TOO_SMALL, 1)], 3, most
    ) == ("of 3 cards 2 lack compute (most free: 0.40), 1 is too small (largest: 15360 MiB)")


def test_a_name_from_outside_is_quoted_with_its_control_characters_visible() -> None:
    assert (
        messages.describe_no_model("H2\n00", None, ["T4"])
        == 'no card of model "H2\\n00" in this pool; it has T4'
    )
