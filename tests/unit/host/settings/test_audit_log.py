"""How long the audit log is kept, as the environment says it."""

from __future__ import annotations

import pytest

from gpupool.audit_log.retention import KEEP_DAYS
from gpupool.base.errors import BadOption
from gpupool.host.settings.audit_log import NAME, read_keep_days


def test_the_usual_retention_is_400_days() -> None:
    assert read_keep_days({}) == read_keep_days({NAME: ""}) == KEEP_DAYS == 400
    assert read_keep_days({NAME: "1100"}) == 1100


@pytest.mark.parametrize("text", ["30", "0", "-1", "x", "40000"])
def test_less_than_a_month_and_nonsense_are_refused(text: str) -> None:
    with pytest.raises(BadOption, match=NAME):
        read_keep_days({NAME: text})
