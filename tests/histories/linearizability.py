"""Decides whether a history of requests to one object is linearizable.

The search is that of Wing and Gong with the memory of visited configurations that Lowe added
("Testing for linearizability", 2017, section 3). Pure: no clock, no I/O. Exponential in the number
of concurrent requests, so a caller splits a history by object first: a history is linearizable if
and only if each object's part is (Herlihy and Wing 1990, theorem 1).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

State = Hashable


@dataclass(frozen=True)
class Operation:
    """One request. Times are monotonic nanoseconds of the recording process.

    `returned_ns` is None where no answer came: the request may take effect at any time after its
    call, or never.
    """

    client: int
    called_ns: int
    returned_ns: int | None
    verb: str
    argument: Any
    answer: Any

    def __str__(self) -> str:
        end = "?" if self.returned_ns is None else f"{self.returned_ns / 1e6:.1f}"
        return f"[{self.called_ns / 1e6:.1f} {end}] client {self.client}: {self.verb} {self.argument} -> {self.answer}"


@dataclass(frozen=True)
class Model:
    """What an object does with one request at a time.

    `step` returns every state that the object may have afterwards; none where the answer is
    impossible in that state.
    """

    initial: State
    step: Callable[[State, Operation], Iterable[State]]


@dataclass(frozen=True)
class Verdict:
    """`explained` is the longest explained prefix of a history that has no linearization, in its
    order."""

    linearizable: bool
    explained: tuple[Operation, ...] = ()
    stuck: tuple[Operation, ...] = ()
    """Requests of which one had to come next, and none could."""


def check(model: Model, history: Sequence[Operation]) -> Verdict:
    """Search for a linearization of a history of one object."""
    operations = sorted(history, key=lambda operation: operation.called_ns)
    answered = sum(
        1 << at for at, operation in enumerate(operations) if operation.returned_ns is not None
    )
    visited: set[tuple[int, State]] = set()
    best: tuple[int, ...] = ()
    stack: list[tuple[int, State, tuple[int, ...]]] = [(0, model.initial, ())]
    while stack:
        taken, state, order = stack.pop()
        if taken & answered == answered:
            return Verdict(True)
        if len(order) > len(best):
            best = order
        for at in _candidates(operations, taken):
            for after in model.step(state, operations[at]):
                if after == state and operations[at].returned_ns is None:
                    continue  # without an answer and without an effect it explains nothing
                configuration = (taken | 1 << at, after)
                if configuration not in visited:
                    visited.add(configuration)
                    stack.append((*configuration, (*order, at)))
    taken = sum(1 << at for at in best)
    stuck = tuple(operations[at] for at in _candidates(operations, taken))
    return Verdict(False, tuple(operations[at] for at in best), stuck)


def _candidates(operations: Sequence[Operation], taken: int) -> list[int]:
    """Requests that may come next: not taken, and called before every request left over
    returned."""
    left = [at for at in range(len(operations)) if not taken >> at & 1]
    returns = [end for at in left if (end := operations[at].returned_ns) is not None]
    first_return = min(returns, default=None)
    return [at for at in left if first_return is None or operations[at].called_ns <= first_return]
