"""One number for how even others are."""

import pytest

from gpupool.base.fairness import compute_jain_index


def test_fairness_is_one_for_equals_and_one_nth_for_a_hog() -> None:
    assert compute_jain_index([0.3, 0.3, 0.3]) == pytest.approx(1.0)
    assert compute_jain_index([1.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert compute_jain_index([]) == 1.0
