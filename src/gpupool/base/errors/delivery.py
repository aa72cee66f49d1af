"""Errors of bringing gpupool onto a machine: archives without a network, the system service."""

from __future__ import annotations

from gpupool.base.errors.requests import BadInput, RequestRejection


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
