"""Errors of what people use beside jobs: logins, sessions, money, messages, entrances into jobs."""

from __future__ import annotations

from gpupool.base.errors.failures import ServiceUnavailable
from gpupool.base.errors.requests import (
    BadInput,
    NoPermission,
    NotFound,
    NotLoggedIn,
    RequestRejection,
)


class SignonRefused(NoPermission, code="GP-3040", title="A login that gets no rights here"):
    """The person is known; no rule gives rights, or a rule cannot be applied now."""


class SignonFailed(NotLoggedIn, code="GP-3041", title="A login that cannot be trusted"):
    """The provider's answer is not for this login, too old, or not signed by the provider."""


class WrongPassword(NotLoggedIn, code="GP-3042", title="Wrong user, password or code"):
    """Wrong user, password or code; it does not say which."""


class LoginLocked(NotLoggedIn, code="GP-3043", title="Login locked after wrong passwords"):
    """`details` has `retry_after_seconds`."""


class UnknownProvider(NotFound, code="GP-3044", title="Unknown identity provider"):
    """Unknown identity provider."""


class SignonUnavailable(RequestRejection, code="GP-2130", title="Sign-on cannot be used here"):
    """A library that it needs lacks, or the provider lacks a setting."""


class ProviderUnreachable(
    ServiceUnavailable, code="GP-5060", title="The identity provider does not answer"
):
    """The identity provider or directory cannot be reached, or answers an error."""


class CrossSiteRequest(NoPermission, code="GP-3060", title="A request from another site's page"):
    """The request has a session's cookie, and not the origin or the header of the console."""


class TwoCredentials(BadInput, code="GP-3061", title="A cookie and a token in one request"):
    """The request has a session's cookie and an Authorization header."""


class SealedMonth(RequestRejection, code="GP-2120", title="A sealed month does not change"):
    """`details` has the `month`."""


class BudgetBelowSpent(RequestRejection, code="GP-2121", title="A budget below what is spent"):
    """`details` has `amount` and `spent`, in the unit of the budget."""


class DocumentUnavailable(RequestRejection, code="GP-2122", title="A document cannot be made here"):
    """A program or font that makes it is not installed; the message names it."""


class BudgetSpent(RequestRejection, code="GP-2123", title="The budget is spent"):
    """`details` has the `budget`, its `amount` and what is `spent`."""


class MonthNotOver(RequestRejection, code="GP-2124", title="The month is not over"):
    """`details` has `end_ns`."""


class UnknownPriceList(NotFound, code="GP-3046", title="Unknown price list"):
    """Unknown price list."""


class UnknownBudget(NotFound, code="GP-3047", title="Unknown budget"):
    """Unknown budget."""


class ForbiddenReceiver(
    RequestRejection, code="GP-2140", title="A receiver that messages may not be sent to"
):
    """A host that is not in the admin's list, or an address of the inside."""


class TooManySubscriptions(RequestRejection, code="GP-2141", title="Too many subscriptions"):
    """`details` has the limit."""


class UnknownSubscription(NotFound, code="GP-3048", title="Unknown subscription"):
    """Unknown subscription."""


class JobUnreachable(RequestRejection, code="GP-2150", title="A job that cannot be entered now"):
    """Its agent opened no stream into it; the text says why."""


class BundleDamaged(
    BadInput, code="GP-1090", title="A bundle that differs from its sums", exit_code=1
):
    """`details` has the `files`."""


class BundleUntrusted(
    BadInput, code="GP-1091", title="A bundle without the expected signature", exit_code=1
):
    """It is not signed, or not with the key that was given."""


class BundleUnreadable(BadInput, code="GP-1092", title="Not a bundle of gpupool", exit_code=1):
    """The file is no archive of `make bundle`, or this machine lacks the program that reads it."""


class SystemdUnusable(
    RequestRejection, code="GP-1093", title="The system service cannot be changed"
):
    """systemd is not here, or does not do what it was asked to do."""


class ForeignUnit(RequestRejection, code="GP-1094", title="A unit that gpupool did not write"):
    """`details` has the `path`."""
