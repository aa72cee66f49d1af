"""A submission as a person would write it: one command line, and the body of the request as YAML."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from typing import Any

from gpupool.base.units import GIB, MIB, WHOLE
from gpupool.wire.containers import ContainerIn
from gpupool.wire.submissions import GroupIn, JobIn, RoleIn, ShapeIn, WithinIn

#: Units of a duration on a command line, the largest first.
_DURATIONS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def format_command(body: JobIn) -> str | None:
    """Format the command line that asks for the same; None where none can: a gang of several roles.

    Variables and directory of the command are those of the shell in which it is typed.
    """
    if body.launch.vm is not None or not _is_plain_gang(body.gang):
        return None
    command = "run" if body.attached else "submit"
    words = ["gpupool", command, *_list_options(body), "--", *body.launch.argv]
    return shlex.join(words)


def format_manifest(body: JobIn) -> str:
    """Format the body of the request as YAML, without what has its default."""
    import yaml

    plain = body.model_dump(
        mode="json",
        exclude_defaults=True,
        # What the server adds, or what belongs to the caller's terminal alone.
        exclude={"launch": {"limits": True, "umask": True}, "attached": True},
    )
    text: str = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
    return text


def _is_plain_gang(gang: GroupIn | None) -> bool:
    """Whether `--gang N` says everything of a gang."""
    if gang is None:
        return True
    if len(gang.parts) != 1 or not isinstance(gang.parts[0], RoleIn):
        return False
    role = gang.parts[0]
    return role.shape is None and role.argv is None and not role.launcher


def _list_options(body: JobIn) -> Iterator[str]:
    yield from _list_shape(body.shape)
    values: list[tuple[str, Any]] = [
        ("--name", body.name),
        ("--tenant", body.tenant),
        ("--project", body.project),
        ("--priority", body.priority or None),
        ("--max-time", body.max_seconds and format_seconds(body.max_seconds)),
        ("--array", body.array),
        ("--reservation", body.reservation),
    ]
    if body.retries:
        first = format_seconds(body.retry_first_seconds)
        values.append(("--retries", body.retries))
        values.append(("--retry-backoff", f"{first}:{format_seconds(body.retry_most_seconds)}"))
    for end in body.after:
        suffix = "" if end.condition == "ok" else f":{end.condition}"
        values.append(("--after", f"{end.job}{suffix}"))
    if body.idle_seconds is not None:
        values += [("--when-idle", "suspend"), ("--idle-after", format_seconds(body.idle_seconds))]
    if body.gang is not None:
        values += _list_gang(body.gang)
    network = body.launch.network
    if network is not None:
        values.append(("--network", network.name))
        values += [("--security-group", group) for group in network.security_groups]
        addresses = [one for one in (network.address, network.address6) if one]
        values.append(("--address", ",".join(addresses) or None))
    if body.launch.container is not None:
        values += _list_container(body.launch.container)
        # Without a container the command has the variables of the shell.
        values += [("--env", f"{name}={value}") for name, value in body.launch.env.items()]
    yield from _join(values)
    flags = (
        ("--preemptible", body.preemptible),
        ("--requeue", body.requeue),
        ("--exact", body.exact),
        ("--no-wait", not body.wait),
        ("--no-fence", not body.fence),
    )
    for flag, is_given in flags:
        if is_given:
            yield flag


def _list_shape(shape: ShapeIn) -> Iterator[str]:
    memory = shape.memory_typed
    if memory is None and shape.memory_bytes is not None:
        memory = format_memory(shape.memory_bytes)
    gpu = f"{shape.gpu_milli / WHOLE:g}"
    count: int | None = shape.count
    if shape.gpu_milli == WHOLE and shape.count > 1:
        gpu = str(shape.count)
        count = None
    values: list[tuple[str, Any]] = [
        ("--gpu", gpu if shape.profile is None else None),
        ("--memory", memory),
        ("--profile", shape.profile),
        ("--count", count if count != 1 else None),
        ("--model", shape.model),
    ]
    values += [("--label", f"{key}={value}") for key, value in shape.labels.items()]
    values.append(("--sharing", shape.sharing))
    values.append(("--cpus", f"{shape.cpu_milli / 1000:g}" if shape.cpu_milli else None))
    values.append(("--host-memory", format_memory(shape.host_bytes) if shape.host_bytes else None))
    values.append(("--topology", _format_within(shape.within)))
    if shape.needs is not None:
        needs = shape.needs
        values += [
            ("--isolation", needs.isolation),
            ("--goal", needs.goal),
            ("--host", needs.host),
        ]
    yield from _join(values)


def _list_gang(gang: GroupIn) -> list[tuple[str, Any]]:
    (role,) = gang.parts
    assert isinstance(role, RoleIn)
    return [
        ("--gang", role.count),
        ("--gang-min", role.minimum),
        ("--topology", _format_within(gang.within)),
    ]


def _list_container(container: ContainerIn) -> list[tuple[str, Any]]:
    values: list[tuple[str, Any]] = [
        ("--image", container.image),
        ("--pull", container.pull if container.pull != "never" else None),
        ("--user", container.user),
        ("--workdir", container.workdir),
        ("--registry-auth", container.registry_auth),
    ]
    for volume in container.volumes:
        mode = ":ro" if volume.read_only else ""
        values.append(("--volume", f"{volume.source}:{volume.target}{mode}"))
    return values


def _join(values: Iterable[tuple[str, Any]]) -> Iterator[str]:
    for option, value in values:
        if value is None:
            continue
        text = str(value)
        # A value that looks like an option is joined to its own.
        if text.startswith("-"):
            yield f"{option}={text}"
        else:
            yield option
            yield text


def _format_within(within: WithinIn | None) -> str | None:
    if within is None:
        return None
    if within.required is not None:
        return within.required
    return None if within.preferred is None else f"{within.preferred},preferred"


def format_memory(size: int) -> str:
    """Format an amount of memory as an option takes it: whole GiB, else whole MiB.

    >>> format_memory(8 << 30), format_memory(1536 << 20)
    ('8GiB', '1536MiB')
    """
    if size % GIB == 0:
        return f"{size // GIB}GiB"
    return f"{-(-size // MIB)}MiB"


def format_seconds(seconds: int) -> str:
    """Format a duration as an option takes it.

    >>> format_seconds(5400), format_seconds(90061)
    ('1h30m', '1d1h1m1s')
    """
    found = ""
    for size, unit in _DURATIONS:
        count, seconds = divmod(seconds, size)
        if count:
            found += f"{count}{unit}"
    return found or "0s"
