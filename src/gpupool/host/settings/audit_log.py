"""Reads from the environment for how many days the audit log is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gpupool.audit_log.retention import KEEP_DAYS
from gpupool.base.errors import BadOption
from gpupool.host.settings.preemption import parse_whole_number

NAME: Final = "GPUPOOL_AUDIT_KEEP_DAYS"
#: Whole months are cut, so less than a month would cut what is a day old.
FEWEST_DAYS: Final = 31
MOST_DAYS: Final = 36_500


def read_keep_days(environ: Mapping[str, str]) -> int:
    """Return the days; 400 where nothing is set. Raises BadOption."""
    if not environ.get(NAME):
        return KEEP_DAYS
    days = parse_whole_number(NAME, environ[NAME])
    if not FEWEST_DAYS <= days <= MOST_DAYS:
        raise BadOption(
            f"{NAME}={days} is out of range: got {days} days, expected {FEWEST_DAYS} to {MOST_DAYS}",
            hint=f"{NAME}={KEEP_DAYS} gpupool up",
        )
    return days
