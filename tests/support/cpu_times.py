"""A pytest plugin that prints where a run of the tests spends its time, by file.

`make test ARGS='-p tests.support.cpu_times'`. Processor time is that of the test's process and of the
programs that it started and waited for; unlike the clock it hardly depends on what else runs. Where
the clock says much more than the processor, a test waits.
"""

from __future__ import annotations

import resource
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

#: Files that are listed.
LISTED = 40
PROPERTY = "cpu_seconds"
BEGIN = pytest.StashKey[float]()


def read_cpu_seconds() -> float:
    """Return the processor time of this process and of the children that it has waited for."""
    total = 0.0
    for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        used = resource.getrusage(whose)
        total += used.ru_utime + used.ru_stime
    return total


class Totals:
    """Seconds and tests by file, on the process that prints."""

    def __init__(self) -> None:
        self.cpu: defaultdict[str, float] = defaultdict(float)
        self.clock: defaultdict[str, float] = defaultdict(float)
        self.tests: Counter[str] = Counter()

    def add(self, report: pytest.TestReport) -> None:
        """Count one phase of a test; its teardown carries the processor time of all phases."""
        file = report.nodeid.partition("::")[0]
        self.clock[file] += report.duration
        if report.when == "teardown":
            self.tests[file] += 1
            for name, value in report.user_properties:
                if name == PROPERTY and isinstance(value, float):
                    self.cpu[file] += value

    def format_lines(self) -> list[str]:
        """The table: the files with most processor time first, and the sum of all."""
        lines = ["processor   clock  tests"]
        for file, seconds in sorted(self.cpu.items(), key=lambda one: -one[1])[:LISTED]:
            lines.append(f"{seconds:8.1f} {self.clock[file]:8.1f} {self.tests[file]:6d}  {file}")
        sums = (sum(self.cpu.values()), sum(self.clock.values()), sum(self.tests.values()))
        return [*lines, "{:8.1f} {:8.1f} {:6d}  in all".format(*sums)]


totals = Totals()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    item.stash[BEGIN] = read_cpu_seconds()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    try:
        return (yield)
    finally:
        item.user_properties.append((PROPERTY, read_cpu_seconds() - item.stash[BEGIN]))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    totals.add(report)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.section("seconds by file")
    for line in totals.format_lines():
        terminalreporter.line(line)
