"""What is sent to submit a job, built from what a person or a script asked for.

Everything that can be wrong on this side is said here, before the pool is asked: quantities, names,
a command that is not there, text that is no UTF-8. Shared by `run`, `submit` and the SDK; imported
before every job, so it stays with builtin modules. It must not know how options are spelled in a
shell.
"""

from __future__ import annotations

from gpupool.base.errors import BadFraction, BadOption
from gpupool.base.ids import check_name
from gpupool.base.units import WHOLE, parse_duration, parse_gpu, parse_memory
from gpupool.client.launch_capture import capture, check_utf8

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

#: Values of `model.claim.SharingKind`, without its import.
SHARING = ("fixed", "burst", "best-effort", "mps", "offline")
UNPROMISED = ("best-effort", "offline")  # of compute, so memory alone is a claim


def job_body(
    argv: Sequence[str],
    *,
    gpu: str | None = None,
    memory: str | None = None,
    count: str | int | None = None,
    model: str | None = None,
    labels: Iterable[str] = (),
    sharing: str | None = None,
    priority: str | None = None,
    max_time: str | None = None,
    name: str | None = None,
    tenant: str | None = None,
    project: str | None = None,
    array: str | int | None = None,
    cpus: str | None = None,
    host_memory: str | None = None,
    topology: str | None = None,
    gang: str | int | None = None,
    gang_min: str | int | None = None,
    gang_file: str | None = None,
    reservation: str | None = None,
    profile: str | None = None,
    isolation: str | None = None,
    goal: str | None = None,
    host: str | None = None,
    preemptible: bool = False,
    requeue: bool = False,
    exact: bool = False,
    when_idle: str | None = None,
    idle_after: str | None = None,
    wait: bool = True,
    fence: bool = True,
    attached: bool = False,
    local: bool = True,
    cwd: str | None = None,
    environ: Mapping[bytes, bytes] | None = None,
    container: Mapping[str, Any] | None = None,
    network: str | None = None,
    security_groups: Sequence[str] = (),
    address: str | None = None,
    after: Sequence[str] = (),
    retries: str | int | None = None,
    retry_backoff: str | None = None,
) -> dict[str, Any]:
    """The body of POST /jobs. Raises subclasses of BadInput; sends nothing and writes nothing.

    `local` says that the job will see this machine's files, so the command can be looked for.
    `container` is a `wire.containers.ContainerIn`; the command then has only `environ`'s variables.
    """
    shape = share_shape(gpu, memory, count, model, labels, sharing, profile) | host_shape(
        cpus, host_memory
    )
    if isolation is not None or goal is not None or host is not None:
        from gpupool.client.claim_needs import needs_of_claim  # few submissions demand something

        shape["needs"] = needs_of_claim(isolation, goal, host)
    body: dict[str, Any] = {"shape": shape, "attached": attached, "wait": wait, "fence": fence}
    if name is not None:
        body["name"] = check_name(name, "job name")
    if tenant is not None:
        body["tenant"] = check_name(tenant, "tenant")
    if project is not None:
        body["project"] = check_name(project, "project")
    if priority is not None:
        is_number = priority.lstrip("+-").isdigit() and priority.isascii()
        body["priority"] = int(priority) if is_number else priority
    if max_time is not None:
        body["max_seconds"] = parse_duration(max_time)
    if array is not None:
        body["array"] = whole_number(array, "--array", "a number of jobs", 1_000_000)
    if reservation is not None:
        body["reservation"] = check_name(reservation, "reservation")
    body |= {
        key: True
        for key, given in (("preemptible", preemptible), ("requeue", requeue), ("exact", exact))
        if given
    }
    if when_idle is not None or idle_after is not None:
        from gpupool.client.idle_choice import idle_body  # few submissions agree to it

        body |= idle_body(when_idle, idle_after)
    if after:
        from gpupool.client.chains.options import (
            parse_dependencies,  # few submissions wait for others
        )

        body["after"] = parse_dependencies(after)
    if retries is not None or retry_backoff is not None:
        from gpupool.client.chains.options import parse_retries  # few submissions are tried again

        body |= parse_retries(retries, retry_backoff)
    within = None if topology is None else parse_within(topology)
    if gang is not None or gang_min is not None or gang_file is not None:
        from gpupool.client.gang import gang_body

        body |= gang_body(
            gang, gang_min, gang_file, within, array=array is not None, attached=attached
        )
    elif within is not None:
        shape["within"] = within
    if not argv and gang_file is not None:
        argv = first_command(body["gang"])
    body["launch"] = _capture_launch(argv, cwd, environ, local=local, container=container)
    if network is not None or security_groups or address is not None:
        from gpupool.client.network_join import make_network_join

        body["launch"]["network"] = make_network_join(network, security_groups, address)
    return body


def _capture_launch(
    argv: Sequence[str],
    cwd: str | None,
    environ: Mapping[bytes, bytes] | None,
    *,
    local: bool,
    container: Mapping[str, Any] | None,
) -> dict[str, Any]:
    if container is None:
        return capture(argv, cwd=cwd, environ=environ, local=local)
    launch = capture(argv, cwd=cwd, environ=environ or {}, local=False)
    return {**launch, "container": dict(container)}


def first_command(group: Mapping[str, Any]) -> Sequence[str]:
    """Of the first role that has one; none where none has."""
    for part in group["parts"]:
        found: Sequence[str] = (
            part.get("argv") or () if "parts" not in part else first_command(part)
        )
        if found:
            return found
    return ()


def host_shape(cpus: str | None, host_memory: str | None) -> dict[str, Any]:
    """What is asked of the node beside its cards. Raises BadOption, BadQuantity."""
    shape: dict[str, Any] = {}
    if cpus is not None:
        whole, _, part = cpus.strip().partition(".")
        digits = whole + part
        is_number = digits.isascii() and digits.isdigit()
        milli = int(whole or "0") * 1000 + int(part.ljust(3, "0")) if is_number else 0
        if not 0 < milli <= 10**9 or len(part) > 3:
            raise BadOption(
                f"--cpus {cpus}: this is no number of processors",
                hint="write it like --cpus 4 or 0.5",
            )
        shape["cpu_milli"] = milli
    if host_memory is not None:
        shape["host_bytes"] = parse_memory(host_memory)
    return shape


def parse_within(text: str) -> dict[str, str]:
    """`rack` is required, `rack,preferred` is not. Raises BadOption."""
    level, _, how = text.partition(",")
    if how not in ("", "required", "preferred") or not level:
        raise BadOption(
            f"--topology {text!r} is not understood", hint="write --topology rack or rack,preferred"
        )
    return {how or "required": check_name(level, "topology level")}


def share_shape(
    gpu: str | None,
    memory: str | None,
    count: str | int | None,
    model: str | None,
    labels: Iterable[str],
    sharing: str | None,
    profile: str | None = None,
) -> dict[str, Any]:
    if sharing not in (None, *SHARING):
        raise BadOption(f"--sharing {sharing!r} is not known", hint=f"one of: {', '.join(SHARING)}")
    has_size = gpu is not None or memory is not None or sharing not in (None, "fixed")
    if profile is not None and has_size:
        raise BadOption(
            f"--profile {profile} is a partition with compute and memory of its own",
            hint="leave out --gpu, --memory and --sharing",
        )
    memory_bytes = None if memory is None else parse_memory(memory)
    if gpu is None and memory is not None and sharing not in UNPROMISED:
        raise BadFraction(
            f"--memory {memory} without a share of the compute",
            hint=f"add it, e.g. --gpu 0.1 --memory {memory}, or --gpu 1 for the whole card",
        )
    if gpu == "none":
        raise BadFraction(
            "--gpu none: a command shares a card; only a virtual machine can be without one",
            hint="gpupool vm run --gpu none, or a small share: --gpu 0.1",
        )
    milli, cards = (WHOLE, None) if gpu is None else parse_gpu(gpu)
    if count is not None:
        if cards is not None:
            raise BadFraction(
                f"--gpu {gpu} means {cards} whole cards already",
                hint=f"write --gpu {gpu}, or --gpu 1 --count {count}",
            )
        cards = whole_number(count, "--count", "a number of cards", 100_000)
    size: dict[str, Any] = (
        {"gpu_milli": milli}
        if profile is None
        else {"profile": check_utf8(profile, "--profile")[:63]}
    )
    named = {} if sharing is None else {"sharing": sharing}
    shape: dict[str, Any] = {**size, "count": cards or 1, **named}
    if memory is not None:
        shape["memory_bytes"] = memory_bytes
        shape["memory_typed"] = memory.strip()[:32]
    if model is not None:
        shape["model"] = check_utf8(model, "--model")
    if labels:
        shape["labels"] = dict(_label(text) for text in labels)
    return shape


def resize_body(gpu: str | None = None, memory: str | None = None) -> dict[str, Any]:
    """The body of POST /jobs/JOB/resize: a new size per card. Raises BadOption, BadFraction,
    BadQuantity."""
    if gpu is None and memory is None:
        raise BadOption(
            "resize to what?",
            hint="give --gpu, --memory or both: gpupool resize JOB --gpu 0.5 --memory 16GiB",
        )
    body: dict[str, Any] = {}
    if gpu is not None:
        body["gpu_milli"], cards = parse_gpu(gpu)
        if cards is not None:
            raise BadFraction(
                f"--gpu {gpu}: a resize changes the share of each card, not how many there are",
                hint="per card write 0.001 to 1; for other cards stop the job and submit it anew",
            )
    if memory is not None:
        body["memory_bytes"] = parse_memory(memory)
    return body


def whole_number(value: str | int, option: str, what: str, largest: int) -> int:
    """An integer from 1 to `largest`, from text. Raises BadOption."""
    text = str(value).strip()
    if not (text.isascii() and text.lstrip("-").isdigit()):
        raise BadOption(f"{option} {text}: this is not {what}", hint=f"write it like {option} 4")
    if not 1 <= int(text) <= largest:
        raise BadOption(
            f"{option} {text}: {what} is from 1 to {largest}", hint=f"write it like {option} 4"
        )
    return int(text)


def _label(text: str) -> tuple[str, str]:
    key, equals, value = check_utf8(text, "--label").partition("=")
    if not equals or not key:
        raise BadOption(f"--label {text!r} is no label", hint="write it like --label rack=r1")
    return key, value
