"""A pytest plugin: of a test with many cases some run every time and all of them at night.

`@pytest.mark.sampled(3)` leaves every third case of the test in the ordinary runs and marks the others
`nightly`. Which third it is follows from the test's name, so that tests over the same cases leave
different ones, and a case that is run today is run tomorrow.

A property that Hypothesis looks for a counterexample to gets a third of its examples in the ordinary
runs, and is run with all of them at night. Without `-m` everything runs whole.
"""

from __future__ import annotations

from collections import Counter
from typing import Any
from zlib import crc32

import hypothesis
import pytest

#: One in so many of a property's examples is tried every time.
EXAMPLES = 3
#: Below this a property was given few examples for their cost, and gets them all.
FEW_EXAMPLES = 15
NIGHTLY = "nightly"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark cases `nightly`, before `-m` chooses, and set how many examples properties get."""
    seen = Counter[str]()
    chosen = str(config.getoption("markexpr"))
    is_ordinary = f"not {NIGHTLY}" in chosen
    shortened = set[object]()
    for item in items:
        mark = item.get_closest_marker("sampled")
        if mark is not None:
            (every,) = mark.args
            test, _, _ = item.nodeid.partition("[")
            if (seen[test] + crc32(test.encode())) % every:
                item.add_marker(pytest.mark.nightly)
            seen[test] += 1
        holder, name = find_settings(item)
        if holder is None:
            continue
        if is_ordinary and holder not in shortened:
            shortened.add(holder)
            setattr(holder, name, shorten(getattr(holder, name)))
        elif NIGHTLY in chosen and not is_ordinary:
            item.add_marker(pytest.mark.nightly)


def find_settings(item: pytest.Item) -> tuple[Any, str]:
    """Return what has the Hypothesis settings of a test, and their name; (None, "") without any.

    A test that is `slow` has as many examples as its bench needs.
    """
    if item.get_closest_marker("slow"):
        return None, ""
    case = getattr(item, "cls", None)
    if isinstance(getattr(case, "settings", None), hypothesis.settings):
        return case, "settings"  # of a state machine
    test = getattr(item, "obj", None)
    test = getattr(test, "__func__", test)
    # What the decorator `settings` sets; Hypothesis has no other way to change it later.
    name = "_hypothesis_internal_use_settings"
    return (test, name) if hasattr(test, name) else (None, "")


def shorten(settings: hypothesis.settings) -> hypothesis.settings:
    """Return the same settings with a part of the examples."""
    every = settings.max_examples
    part = max(min(every, FEW_EXAMPLES), every // EXAMPLES)
    return hypothesis.settings(settings, max_examples=part)
