"""What one object of a pool does with one request at a time: quota, tenant name, job name, running
job, submission.

Each model is a state machine over the answers that `recorder` writes down. An answer of `None`
means that no answer came; then every effect that the request may have had is a possible next state,
beside none at all (the checker leaves out what has no answer).
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.histories.linearizability import Model, Operation, State

REFUSED = "refused"
"""The request was refused because of the state that the object was in."""


def _quota(state: State, operation: Operation) -> Iterator[State]:
    """State: (borrowing limit, generation); the generation is None after a write without an answer.

    `put` (value, generation or None) -> (value, generation) or REFUSED; `get` -> (value,
    generation).
    """
    assert isinstance(state, tuple)
    value, generation = state
    if operation.verb == "get":
        seen, at = operation.answer
        if seen == value and generation in (None, at):
            yield seen, at
        return
    wanted, named = operation.argument
    matches = named is None or generation in (None, named)
    if operation.answer is None:
        if matches:
            yield wanted, None if named is None else named + 1
    elif operation.answer == REFUSED:
        if named is not None and generation != named:
            yield state
    elif matches and (generation is None or operation.answer[1] > generation):
        yield wanted, operation.answer[1]


QUOTA = Model((None, None), _quota)
"""Begins with a tenant that has no limit."""


def _existence(state: State, operation: Operation) -> Iterator[State]:
    """State: whether the tenant exists. `create`, `delete`, `get` -> True (done, found) or REFUSED
    (taken, missing)."""
    if operation.verb == "get":
        if state == (operation.answer is True):
            yield state
        return
    becomes = operation.verb == "create"
    if operation.answer is None or operation.answer is True:
        if state != becomes:
            yield becomes
        elif operation.answer is None:
            yield state
    elif state == becomes:
        yield state


EXISTENCE = Model(False, _existence)

UNKNOWN = "unknown"


def _holder(state: State, operation: Operation) -> Iterator[State]:
    """State: (id of the waiting job that has the name, id stopped last). UNKNOWN: of a submission
    without an answer.

    `submit` -> id or REFUSED (name taken); `stop` -> id that was stopped, or REFUSED (no live job
    of that name). Stopping is idempotent: a stop that meets another stop of the same job may answer
    with that job too.
    """
    assert isinstance(state, tuple)
    holder, last = state
    if operation.verb == "submit":
        if operation.answer == REFUSED:
            if holder is not None:
                yield state
        elif holder is None:
            yield operation.answer or UNKNOWN, last
        return
    if operation.answer is None:
        yield None, holder
    elif operation.answer == REFUSED:
        if holder is None:
            yield state
    elif holder in (operation.answer, UNKNOWN):
        yield None, operation.answer
    elif operation.answer == last:
        yield state


HOLDER = Model((None, None), _holder)


def _submission(state: State, operation: Operation) -> Iterator[State]:
    """State: id of the job that a key made. `submit` -> id: every answer under one key names one
    job."""
    if operation.answer is None:
        yield state or UNKNOWN
    elif state in (None, UNKNOWN, operation.answer):
        yield operation.answer


SUBMISSION = Model(None, _submission)


def _running_job(state: State, operation: Operation) -> Iterator[State]:
    """State: (share in milli-devices, generation or None). The pool itself may raise the
    generation, never the share.

    `resize` share -> (share, generation); `get` -> (share, generation). A resize answers with the
    generation that its job has after the node put the share in force, so the one that it made
    itself may be any up to that.
    """
    assert isinstance(state, tuple)
    share, generation = state
    if operation.answer is None:
        yield operation.argument, generation
        return
    seen, at = operation.answer
    if generation is not None and at < generation:
        return
    if operation.verb == "resize":
        if seen == operation.argument:
            for made in range(at if generation is None else generation, at + 1):
                yield seen, made
    elif seen == share or share is None:
        yield seen, at


RUNNING_JOB = Model((None, None), _running_job)
