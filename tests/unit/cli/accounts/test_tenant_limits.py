"""What `gpus`, `whoami` and `quota` say that the caller itself can have."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.units import GIB
from gpupool.cli.accounts.tenant_limits import cap_share, list_facts
from gpupool.wire.capacity import OwnRoom

NEVER = "nothing: all is guaranteed to others"
UNTIL = "with --preemptible, until others need what they are guaranteed"


def room(**known: int | None) -> dict[str, Any]:
    return OwnRoom(tenant="default", **known).model_dump(mode="json")


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({}, None),
        ({"firm_milli": 500, "preemptible_milli": 500, "most_firm_milli": 2000}, "0.50 GPU"),
        ({"firm_milli": 0, "preemptible_milli": 0, "most_firm_milli": 2000}, "0.00 GPU"),
        (
            {"firm_milli": 0, "preemptible_milli": 2000, "most_firm_milli": 0},
            f"{NEVER}; 2.00 GPU {UNTIL}",
        ),
        (
            {"firm_milli": 0, "preemptible_milli": 0, "most_firm_milli": 0},
            f"{NEVER}; an admin can guarantee this tenant a part: gpupool quota",
        ),
        (
            {"firm_milli": 0, "preemptible_milli": None, "most_firm_milli": 1000},
            f"0.00 GPU; what is free {UNTIL}",
        ),
    ],
)
def test_what_quotas_leave_the_caller_reads_as_one_line(
    known: dict[str, int | None], said: str | None
) -> None:
    assert list_facts(room(**known)) == ([] if said is None else [("may take now", said)])


def test_a_server_from_before_the_field_says_nothing() -> None:
    assert list_facts(None) == []
    assert cap_share(1000, GIB, None) == (1000, GIB)


def test_the_largest_share_of_a_card_is_what_the_caller_s_quota_leaves_of_it() -> None:
    limited = room(firm_milli=500, firm_bytes=2 * GIB, preemptible_milli=900)
    assert cap_share(1000, 4 * GIB, limited) == (500, 2 * GIB)
    assert cap_share(300, GIB, limited) == (300, GIB)
    assert cap_share(0, 0, limited) == (0, 0), "the card is full, whoever asks"
    assert cap_share(1000, GIB, room(firm_milli=0, preemptible_milli=1000)) == "--preemptible only"
    assert cap_share(1000, GIB, room(firm_milli=0, preemptible_milli=0)) == "nothing by quota"
