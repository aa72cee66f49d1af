"""A pytest plugin: of a test with many cases some run every time and all of them at night.

`@pytest.mark.sampled(3)` leaves every third case of the test in the ordinary runs and marks the others
`nightly`. Which third it is follows from the test's name, so that tests over the same cases leave
different ones, and a case that is run today is run tomorrow.
"""

from __future__ import annotations

from collections import Counter
from zlib import crc32

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark cases `nightly`, before `-m` chooses."""
    seen = Counter[str]()
    for item in items:
        mark = item.get_closest_marker("sampled")
        if mark is None:
            continue
        (every,) = mark.args
        test, _, _ = item.nodeid.partition("[")
        if (seen[test] + crc32(test.encode())) % every:
            item.add_marker(pytest.mark.nightly)
        seen[test] += 1
