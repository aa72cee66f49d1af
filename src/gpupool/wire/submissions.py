"""Bodies of a submission: the share, the command and the gang that a client asks for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from gpupool.model.chains.dependency import MAX_DEPENDENCIES
from gpupool.model.chains.retry import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, MAX_RETRIES
from gpupool.model.launch import (
    check_command,
    check_directory,
    check_environment,
    check_limit,
    check_size,
)
from gpupool.model.vm import VM_COMMAND
from gpupool.wire.chains.dependencies import DependencyIn
from gpupool.wire.common import BIG, Name, WireModel
from gpupool.wire.containers import ContainerIn
from gpupool.wire.network.networks import NetworkJoinIn
from gpupool.wire.vm import VmIn

Sharing = Literal["fixed", "burst", "best-effort", "mps", "offline"]
# MAX_ARG_STRLEN of Linux: execve(2) refuses a longer argument or variable.
Text = Annotated[str, Field(max_length=131072)]


class WithinIn(WireModel):
    """How near together: the name of a level (`nvlink`, `numa`, …, `node`, or a level of the pool's
    nodes)."""

    required: Name | None = None
    preferred: Name | None = None


class NeedsIn(WireModel):
    """What the mechanism that shares the card must give; null: anything."""

    isolation: Literal["none", "soft", "hard", "fault"] | None = Field(
        None,
        description="soft: memory and compute of unmodified programs; hard: memory of all programs; "
        "fault: also errors of neighbours",
    )
    goal: Literal["latency", "throughput", "density"] | None = None
    host: Literal["process", "container", "vm"] | None = None


class ShapeIn(WireModel):
    """Per card; `count` cards on one node. Memory null: the same part of it as of the compute."""

    gpu_milli: int = Field(
        0, ge=-BIG, le=BIG, description="thousandths of one card's compute; 0 with a profile"
    )
    memory_bytes: int | None = Field(None, ge=-BIG, le=BIG)
    profile: str | None = Field(
        None, max_length=63, description="a partition on each card: 1g.18gb, or 1g"
    )
    # Refusals repeat what was typed: 8589934592 bytes would not be recognised as 8GiB.
    memory_typed: str | None = Field(
        None, max_length=32, description="as the user wrote it, for refusals"
    )
    count: int = Field(
        1, ge=-BIG, le=BIG, description="cards of one node; 0: none, for a virtual machine"
    )
    model: str | None = Field(None, max_length=63)
    labels: dict[Name, Annotated[str, Field(max_length=255)]] = Field(
        default_factory=dict, max_length=32
    )
    sharing: Sharing | None = Field(
        None, description="null: the default of the node that takes it, else fixed"
    )
    cpu_milli: int = Field(
        0, ge=-BIG, le=BIG, description="thousandths of processors of the node, for all its cards"
    )
    host_bytes: int = Field(
        0, ge=-BIG, le=BIG, description="main memory of the node, for all its cards"
    )
    within: WithinIn | None = None
    needs: NeedsIn | None = None


class LaunchIn(WireModel):
    """The command and its surroundings, exactly as the caller has them."""

    argv: list[Text] = Field(min_length=1, max_length=4096)
    # PATH_MAX, with its NUL.
    cwd: Annotated[str, Field(max_length=4096)] = "/"
    env: dict[Annotated[str, Field(min_length=1, max_length=4096)], Text] = Field(
        default_factory=dict, max_length=8192
    )
    umask: int = Field(0o022, ge=0, le=0o777)
    limits: dict[Annotated[str, Field(max_length=32)], tuple[int, int]] = Field(
        default_factory=dict,
        max_length=32,
        description="name of setrlimit(2) in lower case, as nofile, to (soft, hard); -1 is no limit",
    )
    container: ContainerIn | None = Field(
        None, description="null: the command runs on the node itself"
    )
    vm: VmIn | None = Field(
        None, description=f"a virtual machine; `argv` then begins with `{VM_COMMAND}`"
    )

    network: NetworkJoinIn | None = Field(
        None, description="null: the command sees the network of its node"
    )

    @field_validator("argv")
    @classmethod
    def _argv_can_be_passed_on(cls, argv: list[str]) -> list[str]:
        check_command(argv)
        return argv

    @field_validator("cwd")
    @classmethod
    def _cwd_can_be_entered(cls, cwd: str) -> str:
        check_directory(cwd)
        return cwd

    @field_validator("env")
    @classmethod
    def _env_can_be_passed_on(cls, env: dict[str, str]) -> dict[str, str]:
        check_environment(env)
        return env

    @field_validator("limits")
    @classmethod
    def _limits_can_be_set(cls, limits: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
        for name, (soft, hard) in limits.items():
            check_limit(name, soft, hard)
        return limits

    @model_validator(mode="after")
    # So the command alone tells whether a job is a VM, also after its launch is deleted.
    def _command_says_whether_it_is_a_vm(self) -> Self:
        if (self.argv[0] == VM_COMMAND) != (self.vm is not None):
            raise ValueError(f"a command begins with {VM_COMMAND} if and only if `vm` is given")
        return self

    @model_validator(mode="after")
    # Checked here, so that no node refuses a job that the server accepted (`model.launch`).
    def _fits_one_description(self) -> Self:
        check_size(self.argv, self.env, self.cwd)
        return self


class RoleIn(WireModel):
    """`count` members of one shape and command; null: the job's own."""

    name: Name
    count: int = Field(ge=1, le=10_000)
    minimum: int | None = Field(
        None, ge=1, le=10_000, description="that many start together; null: all"
    )
    launcher: bool = Field(False, description="its command starts when the other roles run")
    shape: ShapeIn | None = None
    argv: list[Text] | None = Field(None, min_length=1, max_length=4096)

    @field_validator("argv")
    @classmethod
    def _argv_can_be_passed_on(cls, argv: list[str] | None) -> list[str] | None:
        check_command(argv or ())
        if argv and argv[0] == VM_COMMAND:
            raise ValueError("a virtual machine cannot be a member of a gang")
        return argv


class GroupIn(WireModel):
    """Roles and groups that belong together, at most so far apart."""

    name: Name
    within: WithinIn | None = None
    parts: list[RoleIn | GroupIn] = Field(min_length=1, max_length=1000)

    def roles(self) -> Iterator[RoleIn]:
        """Every role in it, in order."""
        for part in self.parts:
            if isinstance(part, RoleIn):
                yield part
            else:
                yield from part.roles()


class JobIn(WireModel):
    shape: ShapeIn
    launch: LaunchIn
    name: str | None = Field(None, max_length=200)
    tenant: str | None = Field(None, max_length=63, description="another tenant: admins only")
    project: str | None = Field(None, max_length=63)
    priority: str | int = 0
    # Ten years, as `base.units.parse_duration`.
    max_seconds: int | None = Field(None, ge=1, le=10 * 366 * 86400)
    array: int | None = Field(
        None, ge=1, le=1_000_000, description="that many jobs of the same kind"
    )
    attached: bool = Field(
        False, description="the client brings its terminal and must keep its lease"
    )
    wait: bool = Field(True, description="false: refuse instead of waiting for room")
    fence: bool = True
    exact: bool = Field(False, description="no advice policy may give it a smaller share")
    preemptible: bool = Field(
        False, description="may be sent back to wait for claims of higher priority"
    )
    requeue: bool = Field(
        False, description="starts again when its card, node or supervisor is lost"
    )
    idle_seconds: int | None = Field(
        None,
        ge=1,
        le=10 * 366 * 86400,
        description="may be suspended for other claims when its cards were idle for so long; "
        "null: never",
    )
    reservation: Name | None = Field(None, description="may also use what that reservation holds")
    retries: int = Field(
        0, ge=0, le=MAX_RETRIES, description="starts again so often after a failure"
    )
    retry_first_seconds: int = Field(
        FIRST_PAUSE_SECONDS, ge=0, le=7 * 86400, description="before the first retry, then doubled"
    )
    retry_most_seconds: int = Field(
        LONGEST_PAUSE_SECONDS, ge=0, le=7 * 86400, description="no pause is longer"
    )
    after: list[DependencyIn] = Field(
        default_factory=list,
        max_length=MAX_DEPENDENCIES,
        description="starts after the ends of these; if one can no longer come, the job is stopped",
    )
    gang: GroupIn | None = Field(
        None, description="jobs NAME.0, NAME.1, … that start together or not at all"
    )

    @model_validator(mode="after")
    # A role has its own command and the job's environment: both go into one description.
    def _each_role_fits_one_description(self) -> Self:
        for role in self.gang.roles() if self.gang else ():
            check_size(role.argv or (), self.launch.env, self.launch.cwd)
        return self

    @model_validator(mode="after")
    def _vm_is_one_job(self) -> Self:
        is_many = self.array is not None or self.gang is not None
        if self.launch.vm is not None and (is_many or self.attached):
            raise ValueError(
                "a virtual machine is one job of its own, in no array, gang or terminal"
            )
        return self
