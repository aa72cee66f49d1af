"""Differences that stand, as data: which cases end otherwise here, and why
(`SUITE_argued.json`)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from tests.conformance.case import HERE, SUITES, Case, cases
from tests.conformance.filed import SUITES as QUOTA_SUITES
from tests.conformance.filed import filed
from tests.conformance.judge import Kind, Verdict, judge

UNARGUABLE = (Kind.LIVELOCK,)
"""No reason makes these right."""


@dataclass(frozen=True)
class Argued:
    """Cases of one suite that end otherwise for the same reason."""

    suite: str
    reason: str
    why: str
    cases: tuple[str, ...]
    """Ids of cases."""


@dataclass
class Found:
    """What the cases of one suite came to."""

    suite: str
    equal: int = 0
    argued: Counter[str] = field(default_factory=Counter)
    """By reason."""
    outside: Counter[str] = field(default_factory=Counter)
    """By what our terms lack."""
    different: list[str] = field(default_factory=list)
    """Sentences: cases that end otherwise and stand in no table, and entries of tables that no case
    needs."""
    rounds: int = 0
    """Plans that a case took at most."""

    @property
    def total(self) -> int:
        return self.equal + self.argued.total() + self.outside.total() + len(self.different)


def argued(suite: str) -> list[Argued]:
    """The table of a suite; empty where it has none."""
    path = HERE / f"{suite}_argued.json"
    if not path.exists():
        return []
    table = json.loads(path.read_text(encoding="utf-8"))
    return [
        Argued(suite, one["reason"], one["why"], tuple(f"{suite}/{name}" for name in one["cases"]))
        for one in table["reasons"]
    ]


def examined(suite: str) -> Found:
    """Every case of a suite played and compared, with the table beside it."""
    return compare(suite, ((case, judge(case)) for case in cases(suite)))


def compare(suite: str, judged: Iterable[tuple[Case, Verdict]]) -> Found:
    """What the verdicts come to."""
    reasons = {name: one.reason for one in argued(suite) for name in one.cases}
    found = Found(suite)
    for case, verdict in judged:
        _count(found, case, verdict, reasons.pop(case.id, None))
    found.different += [f"{name} stands in the table and is no case" for name in reasons]
    return found


def _count(found: Found, case: Case, verdict: Verdict, reason: str | None) -> None:
    found.rounds = max(found.rounds, verdict.rounds)
    if verdict.kind is Kind.OUTSIDE:
        found.outside[case.outside] += 1
    elif verdict.kind is Kind.EQUAL and reason is None:
        found.equal += 1
    elif verdict.kind is Kind.EQUAL:
        found.different.append(f"{case.id} is equal and stands in the table: {reason}")
    elif reason is None or verdict.kind in UNARGUABLE:
        found.different.append(f"{case.id}: {verdict.kind}: {verdict.sentence}")
    else:
        found.argued[reason] += 1


def examined_quotas(suite: str) -> Found:
    """Every case of a suite about quotas planned and compared with what it says, or with what was
    written down here."""
    found = Found(suite)
    for one in filed(suite):
        if one.outside:
            found.outside[one.outside] += 1
            continue
        ended = one.ended()
        argued = one.argued
        if argued is None and ended == one.case["expected"]:
            found.equal += 1
        elif (
            argued is not None
            and ended == {word: argued[word] for word in ended} != one.case["expected"]
        ):
            found.argued[argued["reason"]] += 1
        else:
            found.different.append(f"{one.id}: {ended}")
    return found


EXAMINERS: Mapping[str, Callable[[], Found]] = {
    **{suite: partial(examined, suite) for suite in SUITES},
    **{suite: partial(examined_quotas, suite) for suite in QUOTA_SUITES},
}
"""By suite, what plays and compares its cases; one whose cases have another form comes here with
its own."""


def all_examined() -> Iterator[Found]:
    """Suite by suite."""
    return (examine() for _, examine in sorted(EXAMINERS.items()))
