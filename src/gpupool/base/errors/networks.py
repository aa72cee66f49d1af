"""Errors of tenants' networks: addresses, subnets, and the engine that carries them."""

from __future__ import annotations

from gpupool.base.errors.requests import BadInput, NotFound, RequestRejection


class BadAddress(BadInput, code="GP-1060", title="Bad address or prefix"):
    """Bad address or prefix."""


class BadBandwidth(BadInput, code="GP-1062", title="Bad bandwidth"):
    """Bad bandwidth."""


class OverlappingSubnets(RequestRejection, code="GP-2080", title="Overlapping subnets"):
    """`details` has the `clashing` prefixes."""


class SubnetFull(RequestRejection, code="GP-2082", title="No free address in a subnet"):
    """`details` has the number of `addresses`."""


class AddressTaken(RequestRejection, code="GP-2089", title="An address that another job has"):
    """`details` has the `address` and the name of the `job`."""


class NetworkingUnavailable(
    RequestRejection, code="GP-2083", title="Networks cannot be used in this pool now"
):
    """Networking is not enabled, or its engine cannot work; the message says why."""


class TooManyNetworks(RequestRejection, code="GP-2084", title="Too many networks or subnets"):
    """`details` has the limit."""


class UnknownNetwork(NotFound, code="GP-3020", title="Unknown network"):
    """Unknown network."""


class BandwidthAboveCap(RequestRejection, code="GP-2102", title="More bandwidth than allowed"):
    """`details` has the `limit` in kbit/s."""


class BadPlaneInventory(BadInput, code="GP-1068", title="Bad inventory of planes"):
    """`details` has all `faults`."""


class UnknownPlane(NotFound, code="GP-3025", title="Unknown plane"):
    """A plane that the tenant does not demand, or a target without configuration."""
