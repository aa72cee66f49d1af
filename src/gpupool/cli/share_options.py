"""The options of `run` and `submit`: one table, read by argparse for help and errors, and directly when all is plain.

`argparse` and the `re` below it cost as much as an interpreter's start, so a command line that
is plainly right is read from this table by `read_plain`; anything it does not know at sight
(a wrong option, `--help`, an abbreviation) goes to argparse, which says what is wrong.
"""

from __future__ import annotations

from gpupool.cli.commands import GLOBAL_OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Option = tuple[tuple[str, ...], str, str, str | None, str]

SHARE: tuple[Option, ...] = (
    (("--gpu",), "gpu", "value", "SHARE", "compute per card: 0.001 to 1, or a number of whole cards (default: 1)"),
    (("--memory", "--mem"), "memory", "value", "SIZE", "memory per card: 8GiB, 8Gi, 8192MiB (default: as the compute)"),
    (("--profile",), "profile", "value", "NAME", "a partition of that profile instead of a share, e.g. 1g.18gb or 1g"),
    (("--count",), "count", "value", "N", "that many cards of one node, each with this share (default: 1)"),
    (("--model",), "model", "value", "MODEL", "only cards of this model, e.g. H200"),
    (("--label",), "label", "append", "KEY=VALUE", "only nodes with this label; may be repeated"),
    (("--sharing",), "sharing", "value", "HOW", "fixed, burst or best-effort (default: fixed)"),
    (("--cpus",), "cpus", "value", "N", "that many processors of the node as well, e.g. 4 or 0.5"),
    (("--host-memory",), "host_memory", "value", "SIZE", "that much of the node's main memory as well, e.g. 32GiB"),
    (
        ("--topology",),
        "topology",
        "value",
        "LEVEL",
        "cards (of a gang: members) within one nvlink, numa, rack, ...; LEVEL,preferred to wish",
    ),
)
JOB: tuple[Option, ...] = (
    (("--name",), "name", "value", "NAME", "name of the job (default: the command's, with a suffix)"),
    (("--priority",), "priority", "value", "RANK", "low, normal, high or -1000 to 1000 (default: normal)"),
    (("--max-time",), "max_time", "value", "TIME", "end the job after 90s, 30m, 2h, 1h30m"),
    (("--preemptible",), "preemptible", "flag", None, "may be sent back to wait for jobs of higher priority"),
    (("--requeue",), "requeue", "flag", None, "start again elsewhere when its card, node or supervisor is lost"),
    (("--reservation",), "reservation", "value", "NAME", "may use what that reservation holds"),
    (("--tenant",), "tenant", "value", "TENANT", "on behalf of another tenant (admins)"),
    (("--project",), "project", "value", "PROJECT", "book it on this project of the tenant"),
    (("--no-wait",), "no_wait", "flag", None, "refuse instead of waiting when there is no room now"),
    (("--no-fence",), "no_fence", "flag", None, "run without the fence library, even where it is there"),
)
RUN: tuple[Option, ...] = (
    (("-q", "--quiet"), "quiet", "flag", None, "say nothing but refusals"),
    (("-v", "--verbose"), "verbose", "flag", None, "say what happens also when stderr is no terminal"),
)
SUBMIT: tuple[Option, ...] = (
    (("--array",), "array", "value", "N", "N jobs, NAME.0 to NAME.N-1; each finds its number in GPUPOOL_ARRAY_INDEX"),
    (("--gang",), "gang", "value", "N", "N members, NAME.0 to NAME.N-1, that start together or not at all"),
    (("--gang-min",), "gang_min", "value", "M", "start when M of them have room; the others join later (default: all)"),
    (("--gang-file",), "gang_file", "value", "FILE", "a gang of roles with shares and commands of their own"),
    (("-o", "--output"), "output", "value", "FORMAT", "text or json (default: text)"),
)  # fmt: skip

OF = {"run": (*SHARE, *JOB, *RUN), "submit": (*SHARE, *JOB, *SUBMIT)}


class Options:
    """What was given: one attribute per option of the command, None, False or () where it was not."""

    command: Sequence[str]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


def blank(command: str) -> Options:
    """Nothing given yet."""
    options = Options()
    for _, dest, kind, _, _ in (*OF[command], *GLOBAL_OPTIONS):
        setattr(options, dest, False if kind == "flag" else [] if kind == "append" else None)
    return options


def split_command(name: str, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options of gpupool and the command to run: it starts after `--`, or at the first word that is no option."""
    valued = {flag for flags, _, kind, _, _ in (*OF[name], *GLOBAL_OPTIONS) if kind != "flag" for flag in flags}
    position = 0
    while position < len(words):
        word = words[position]
        if word == "--":
            return list(words[:position]), list(words[position + 1 :])
        if not word.startswith("-") or word == "-":
            break
        position += 2 if word in valued else 1
    return list(words[:position]), list(words[position:])


def read_plain(name: str, words: Sequence[str]) -> Options | None:
    """The options, when every word is one from the table with its value; None when argparse has to look."""
    known = {flag: (dest, kind) for flags, dest, kind, _, _ in (*OF[name], *GLOBAL_OPTIONS) for flag in flags}
    options = blank(name)
    given, options.command = split_command(name, words)
    position = 0
    while position < len(given):
        flag, equals, value = given[position].partition("=")
        dest, kind = known.get(flag, ("", ""))
        position += 1
        if kind == "flag" and not equals:
            setattr(options, dest, True)
            continue
        if not kind or kind == "flag" or (equals and not flag.startswith("--")):
            return None
        if not equals:
            if position == len(given) or given[position].startswith("-"):
                return None
            value = given[position]
            position += 1
        if kind == "append":
            getattr(options, dest).append(value)
        else:
            setattr(options, dest, value)
    return options


def body(options: Options, *, attached: bool, local: bool) -> dict[str, Any]:
    """What is sent to submit the job. Raises BadInput's classes."""
    from gpupool.client.submission import job_body

    return job_body(
        options.command,
        gpu=options.gpu,
        memory=options.memory,
        count=options.count,
        model=options.model,
        labels=options.label,
        sharing=options.sharing or "fixed",
        priority=options.priority,
        max_time=options.max_time,
        name=options.name,
        tenant=options.tenant,
        project=options.project,
        array=None if attached else getattr(options, "array", None),
        cpus=options.cpus,
        host_memory=options.host_memory,
        topology=options.topology,
        gang=None if attached else getattr(options, "gang", None),
        gang_min=None if attached else getattr(options, "gang_min", None),
        gang_file=None if attached else getattr(options, "gang_file", None),
        reservation=options.reservation,
        profile=options.profile,
        preemptible=options.preemptible,
        requeue=options.requeue,
        wait=not options.no_wait,
        fence=not options.no_fence,
        attached=attached,
        local=local,
    )
