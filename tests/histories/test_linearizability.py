"""The checker itself: histories that have an order are explained, those that have none are not."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.histories.linearizability import Model, Operation, State, check
from tests.histories.models import EXISTENCE, HOLDER, QUOTA, REFUSED, RUNNING_JOB, SUBMISSION


def operation(
    called: int, returned: int | None, verb: str, argument: object, answer: object
) -> Operation:
    return Operation(0, called, returned, verb, argument, answer)


def _register(state: State, asked: Operation) -> Iterator[State]:
    if asked.verb == "write":
        yield asked.argument
    elif asked.answer == state:
        yield state


REGISTER = Model(0, _register)


def test_check_read_of_an_older_value_after_a_newer_one_is_refused() -> None:
    history = [
        operation(0, 1, "write", 1, True),
        operation(2, 9, "write", 2, True),
        operation(3, 4, "read", None, 2),
        operation(5, 6, "read", None, 1),
    ]
    verdict = check(REGISTER, history)
    assert not verdict.linearizable
    assert verdict.stuck == (history[3],)


@pytest.mark.parametrize("seen", [0, 1])
def test_check_write_without_an_answer_may_have_happened_or_not(seen: int) -> None:
    assert check(
        REGISTER, [operation(0, None, "write", 1, None), operation(5, 6, "read", None, seen)]
    ).linearizable


def test_check_write_without_an_answer_cannot_come_and_go() -> None:
    history = [operation(0, None, "write", 1, None)]
    history += [operation(2 * n, 2 * n + 1, "read", None, seen) for n, seen in enumerate((1, 0), 1)]
    assert not check(REGISTER, history).linearizable


@given(
    st.lists(
        st.tuples(
            st.integers(0, 9),
            st.integers(0, 6),
            st.sampled_from(("read", "write")),
            st.integers(0, 2),
        ),
        max_size=6,
    )
)
def test_check_agrees_with_all_orders_tried_one_by_one(
    drawn: list[tuple[int, int, str, int]],
) -> None:
    history = [
        operation(start, start + length, verb, value, value) for start, length, verb, value in drawn
    ]
    assert check(REGISTER, history).linearizable == any(
        _explains(order) for order in permutations(history)
    )


def _explains(order: tuple[Operation, ...]) -> bool:
    state = 0
    for at, asked in enumerate(order):
        if any(
            later.returned_ns is not None and later.returned_ns < asked.called_ns
            for later in order[at + 1 :]
        ):
            return False
        if asked.verb == "read" and asked.answer != state:
            return False
        state = asked.argument if asked.verb == "write" else state
    return True


@pytest.mark.parametrize(
    ("model", "history"),
    [
        (QUOTA, [("put", (5, None), (5, 2)), ("put", (6, 1), (6, 3))]),
        (QUOTA, [("put", (5, None), (5, 2)), ("get", None, (None, 1))]),
        (EXISTENCE, [("create", None, True), ("create", None, True)]),
        (EXISTENCE, [("create", None, True), ("delete", None, REFUSED)]),
        (HOLDER, [("submit", None, "j-1"), ("submit", None, "j-2")]),
        (HOLDER, [("submit", None, "j-1"), ("stop", None, "j-2")]),
        (SUBMISSION, [("submit", None, "j-1"), ("submit", None, "j-2")]),
        (RUNNING_JOB, [("resize", 300, (300, 4)), ("get", None, (500, 5))]),
        (RUNNING_JOB, [("get", None, (300, 4)), ("get", None, (300, 3))]),
    ],
)
def test_model_refuses_answers_that_no_pool_may_give(
    model: Model, history: list[tuple[str, object, object]]
) -> None:
    operations = [operation(2 * n, 2 * n + 1, *asked) for n, asked in enumerate(history)]
    assert not check(model, operations).linearizable
    assert check(model, operations[:1]).linearizable
