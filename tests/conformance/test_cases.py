"""Cases of other schedulers end here as there, or stand in the table of differences with a
reason."""

import pytest

from tests.conformance.case import SUITES, Case, cases
from tests.conformance.judge import Kind, Verdict, compared
from tests.conformance.play import Ending
from tests.conformance.table import argued, compare, examined


@pytest.mark.parametrize("suite", SUITES)
def test_every_case_ends_as_it_says_or_is_argued(suite: str) -> None:
    found = examined(suite)
    assert found.different == []
    assert found.equal


@pytest.mark.parametrize("suite", SUITES)
def test_every_reason_has_a_sentence_and_cases_and_no_case_has_two(suite: str) -> None:
    table = argued(suite)
    assert all(one.reason and one.why and one.cases for one in table)
    names = [name for one in table for name in one.cases]
    assert len(names) == len(set(names))


def _case(suite: str) -> Case:
    return next(case for case in cases(suite) if case.expected and not case.outside)


def test_an_ending_that_never_settles_is_no_equal_one() -> None:
    case = _case("kai")
    assert compared(case, Ending(nodes=dict.fromkeys(case.expected, ()))).kind is Kind.LIVELOCK


def test_a_case_that_differs_without_a_reason_is_told() -> None:
    case = _case("kai")
    found = compare("kai", [(case, Verdict(Kind.CLAIMS, "one runs, expected none"))])
    assert any(case.id in sentence for sentence in found.different)
