"""Cards as a caller sees them: the owner of an MPS card is shown as far as the caller may know it."""

from __future__ import annotations

import pytest

from gpupool.model.tenant import Principal, UserRole
from tests.unit.fleet.conftest import ADMIN, AGENT, GIB, USER, House, card, node

ALICE = Principal(7, "alice", 7, "nlp", UserRole.USER)
OWNER = {"GPU-0": "nlp/alice", "GPU-1": "nlp/alice"}


@pytest.fixture
def served(house: House) -> House:
    """Two cards that jobs of one owner have had; only the first still has a share."""
    house.fleet.register_node("sim", node(card(0), card(1)), AGENT)
    house.sit("GPU-0", milli=300, size=GIB)
    house.fleet.cards.list_owners = lambda: OWNER
    return house


@pytest.mark.parametrize(
    ("caller", "shown"), [(ALICE, "alice"), (ADMIN, "nlp/alice"), (USER, "another tenant")]
)
def test_an_owner_is_named_to_its_tenant_and_to_admins(
    served: House, caller: Principal, shown: str
) -> None:
    found = served.fleet.get_device("0", caller)
    assert found.mps_owner == shown
    assert (found.free_milli, found.largest_milli, found.largest_bytes) == (700, 0, 0)
    assert [one.mps_owner for one in served.fleet.list_devices(caller).items] == [shown, None]


def test_an_empty_card_has_no_owner_and_takes_any_share(served: House) -> None:
    found = served.fleet.get_device("1", USER)
    assert (found.mps_owner, found.largest_milli) == (None, 1000)


def test_cards_of_a_change_are_described_in_the_order_of_their_names(served: House) -> None:
    found = served.fleet.release_devices(["sim:1", "sim:0"], True, ADMIN)
    assert [(one.name, one.mps_owner) for one in found] == [
        ("sim:1", None),
        ("sim:0", "nlp/alice"),
    ]
