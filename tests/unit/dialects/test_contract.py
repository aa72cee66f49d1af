"""The one form every dialect's words end in."""

from __future__ import annotations

import pytest

from gpupool.dialects.contract import (
    ContainerAsk,
    GangHint,
    PodHints,
    list_differences,
    merge_fields,
)
from gpupool.model.claim import SharingKind


@pytest.mark.parametrize(
    ("ask", "sharing"),
    [
        (ContainerAsk(gpu_milli=300), SharingKind.FIXED),
        (ContainerAsk(gpu_milli=300, usual=SharingKind.BURST), SharingKind.BURST),
        (
            ContainerAsk(gpu_milli=300, usual=SharingKind.BURST, sharing=SharingKind.FIXED),
            SharingKind.FIXED,
        ),
        (ContainerAsk(memory_bytes=1 << 30), SharingKind.BEST_EFFORT),
        (ContainerAsk(memory_bytes=1 << 30, sharing=SharingKind.FIXED), SharingKind.BEST_EFFORT),
        (ContainerAsk(gpu_milli=1000, usual=SharingKind.BURST), SharingKind.FIXED),
        (ContainerAsk(gpu_milli=1000, sharing=SharingKind.BEST_EFFORT), SharingKind.BEST_EFFORT),
        (ContainerAsk(gpu_milli=1000, sharing=SharingKind.OFFLINE), SharingKind.OFFLINE),
        (ContainerAsk(memory_bytes=1 << 30, sharing=SharingKind.OFFLINE), SharingKind.OFFLINE),
        (ContainerAsk(profile="1g.10gb"), SharingKind.FIXED),
    ],
)
def test_what_follows_is_filled_in_and_twice_is_once(
    ask: ContainerAsk, sharing: SharingKind
) -> None:
    done = ask.complete()
    assert done.sharing is sharing
    assert done.complete() == done


def test_the_same_part_of_memory_needs_no_word_and_a_cap_is_a_bursts() -> None:
    assert ContainerAsk(gpu_milli=300, memory_milli=300).complete().memory_milli is None
    assert ContainerAsk(gpu_milli=300, memory_milli=500).complete().memory_milli == 500
    assert (
        ContainerAsk(gpu_milli=300, cap_milli=500, sharing=SharingKind.FIXED).complete().cap_milli
        is None
    )
    assert (
        ContainerAsk(gpu_milli=300, cap_milli=500, sharing=SharingKind.BURST).complete().cap_milli
        == 500
    )


def test_a_whole_card_is_nobody_elses() -> None:
    assert ContainerAsk(gpu_milli=1000).complete().is_whole
    assert not ContainerAsk(gpu_milli=1000, sharing=SharingKind.BEST_EFFORT).is_whole
    assert not ContainerAsk(profile="1g.10gb").is_whole


def test_words_of_two_are_joined_where_they_do_not_differ() -> None:
    one, other = PodHints(queue="a", gang=GangHint("g")), PodHints(queue="b", priority="high")
    assert list_differences(one, other) == ["queue"]
    assert merge_fields(one, PodHints(priority="high")) == PodHints(
        "a", GangHint("g"), None, "high"
    )


@pytest.mark.parametrize(
    ("ask", "names_sharing"),
    [
        (ContainerAsk(gpu_milli=300), False),
        (ContainerAsk(gpu_milli=1000, cap_milli=500), False),
        (ContainerAsk(gpu_milli=300, sharing=SharingKind.FIXED), None),
        (ContainerAsk(gpu_milli=300, usual=SharingKind.FIXED), None),
        (ContainerAsk(gpu_milli=1000), None),
        (ContainerAsk(memory_bytes=1 << 30), None),
        (ContainerAsk(profile="1g.10gb"), None),
    ],
)
def test_share_that_names_no_sharing_takes_the_default(
    ask: ContainerAsk, names_sharing: bool | None
) -> None:
    done = ask.complete()
    assert done.names_sharing is names_sharing
    assert done.complete() == done
