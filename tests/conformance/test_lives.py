"""Random lives of small pools come to rest after every event, and each claim gets what its tenant is guaranteed."""

import pytest

from tests.conformance.lives import lives

LIVES, PARTS = 160, 4


@pytest.mark.parametrize("part", range(PARTS))
def test_lives_come_to_rest_and_whoever_is_inside_its_guarantee_starts_after_one_round(part: int) -> None:
    each = LIVES // PARTS
    assert list(lives(part * each, each)) == []
