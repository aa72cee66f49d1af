from dataclasses import replace

import pytest

from gpupool.base.errors import RequestRejection
from gpupool.mechanisms.registry import choose_mechanism
from tests.support.mps_host import CARD, describe_share


def test_a_share_for_mps_is_served_by_mps_or_refused() -> None:
    """Any other mechanism would run it without what it asked for."""
    view = describe_share(card=replace(CARD, simulated=True))
    with pytest.raises(RequestRejection) as refusal:
        choose_mechanism(view)
    assert "mps: " in refusal.value.message
    assert "simulated" in refusal.value.message
    assert "share: " not in refusal.value.message


def test_other_shares_are_never_served_by_mps() -> None:
    view = describe_share(sharing="fixed")
    assert choose_mechanism(view).name != "mps"
