"""Defines what the driver's calls for MIG instances take and answer. Imports no driver."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CallProblem(StrEnum):
    """What the driver answered, as far as it decides what to do next."""

    #: Something that is open on the card or in the instance prevents the call.
    IN_USE = "in-use"
    #: The placement is not free. The driver also says so of an instance that exists already.
    OCCUPIED = "occupied"
    ABSENT = "absent"
    NO_PERMISSION = "no-permission"
    UNSUPPORTED = "unsupported"
    RESET_REQUIRED = "reset-required"
    OTHER = "other"


class DriverCallError(Exception):
    """A call that the driver did not carry out."""

    def __init__(self, call: str, problem: CallProblem, text: str) -> None:
        super().__init__(f"{call}: {text}")
        self.call = call
        self.problem = problem


@dataclass(frozen=True)
class GpuInstance:
    """A GPU instance that exists on a card now.

    Attributes:
        number: the driver's id; it is used again after the instance is destroyed.
        profile_id: the driver's number of the profile; it differs between boards.
        compute: numbers of its compute instances; empty for one that is half made or half gone.
    """

    number: int
    profile_id: int
    start: int
    size: int
    compute: tuple[int, ...] = ()


@dataclass(frozen=True)
class MigMode:
    """Whether MIG mode is on now, and whether it will be after the next reset of the card."""

    current: bool
    pending: bool


class Virtualization(StrEnum):
    """Where this host sees the card from."""

    NONE = "none"
    PASSTHROUGH = "passthrough"
    VGPU_GUEST = "vgpu-guest"
    HOST = "host"
