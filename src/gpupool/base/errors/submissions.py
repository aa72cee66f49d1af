"""Errors of dependencies, retries and schedules of jobs."""

from __future__ import annotations

from gpupool.base.errors.requests import BadInput, NotFound, RequestRejection


class DependencyNeverMet(
    RequestRejection, code="GP-1080", title="A dependency that can no longer be met"
):
    """`details` has the `job`: the id of what has ended."""


class BadDependency(BadInput, code="GP-1081", title="Not a dependency"):
    """Not a dependency."""


class BadRetry(BadInput, code="GP-1082", title="Not a rule of retries"):
    """Not a rule of retries."""


class UnknownAttempt(NotFound, code="GP-1083", title="Unknown attempt of a job"):
    """`details` has the `attempts` that there are."""


class BadSchedule(BadInput, code="GP-1084", title="Not a schedule"):
    """Not a schedule."""


class TooManySchedules(RequestRejection, code="GP-1085", title="Too many schedules"):
    """`details` has the limit."""


class UnknownSchedule(NotFound, code="GP-1086", title="Unknown schedule"):
    """Unknown schedule."""
