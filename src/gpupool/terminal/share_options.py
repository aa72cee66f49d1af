"""The options of `run` and `submit`: one table, read by argparse for help and errors, and directly
when every word is plainly right.

`argparse` and the `re` below it cost as much as an interpreter's start, so a command line that
is plainly right is read from this table by `read_plain`; anything it does not know at sight
(a wrong option, `--help`, an abbreviation) goes to argparse, which says what is wrong.
"""

from __future__ import annotations

from gpupool.terminal.commands import GLOBAL_OPTIONS
from gpupool.terminal.container_options import CONTAINER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Option = tuple[tuple[str, ...], str, str, str | None, str]

# Each option: flags, destination, kind (value, append or flag), placeholder, help. `native/cli`
# reads the same words in C; tests/unit/native/test_front_same.py compares the two.
SHARE: tuple[Option, ...] = (
    (
        ("--gpu",),
        "gpu",
        "value",
        "SHARE",
        "compute per card: 0.001 to 1, or a number of whole cards (default: 1)",
    ),
    (
        ("--memory", "--mem"),
        "memory",
        "value",
        "SIZE",
        "memory per card: 8GiB, 8Gi, 8192MiB (default: as the compute)",
    ),
    (
        ("--profile",),
        "profile",
        "value",
        "NAME",
        "a partition of that profile instead of a share, e.g. 1g.18gb or 1g",
    ),
    (
        ("--count",),
        "count",
        "value",
        "N",
        "that many cards of one node, each with this share (default: 1)",
    ),
    (("--model",), "model", "value", "MODEL", "only cards of this model, e.g. H200"),
    (("--label",), "label", "append", "KEY=VALUE", "only nodes with this label; may be repeated"),
    (
        ("--sharing", "--policy"),
        "sharing",
        "value",
        "HOW",
        "fixed, burst, best-effort, mps or offline (default: the node's, else fixed)",
    ),
    (("--cpus",), "cpus", "value", "N", "CPUs of the node, e.g. 4 or 0.5"),
    (
        ("--host-memory",),
        "host_memory",
        "value",
        "SIZE",
        "main memory of the node, e.g. 32GiB",
    ),
    (
        ("--topology",),
        "topology",
        "value",
        "LEVEL",
        (
            "cards (of a gang: members) within one nvlink, numa, rack, ...; LEVEL,preferred is a "
            "preference"
        ),
    ),
)
NEEDS: tuple[Option, ...] = (
    (
        ("--isolation",),
        "isolation",
        "value",
        "KIND",
        "none, soft (unmodified programs keep to their share), hard (memory of all programs), fault",
    ),
    (
        ("--goal",),
        "goal",
        "value",
        "GOAL",
        "prefer among what isolates enough: latency, throughput or density",
    ),
    (("--host",), "host", "value", "HOST", "process, container or vm (default: process)"),
    (("--dry-run",), "dry_run", "flag", None, "check it and print which mechanism it would get"),
    (
        ("--preview",),
        "preview",
        "flag",
        None,
        "say where it fits, or why it would wait; submit nothing",
    ),
)
JOB: tuple[Option, ...] = (
    (
        ("--name",),
        "name",
        "value",
        "NAME",
        "name of the job (default: the command's, with a suffix)",
    ),
    (
        ("--priority",),
        "priority",
        "value",
        "RANK",
        "low, normal, high or -1000 to 1000 (default: normal)",
    ),
    (("--max-time",), "max_time", "value", "TIME", "end the job after 90s, 30m, 2h, 1h30m"),
    (
        ("--preemptible",),
        "preemptible",
        "flag",
        None,
        "may be evicted and requeued for jobs of higher priority",
    ),
    (("--requeue",), "requeue", "flag", None, "requeue when its card, node or supervisor is lost"),
    (("--exact",), "exact", "flag", None, "no advice policy may give it a smaller share"),
    (
        ("--when-idle",),
        "when_idle",
        "value",
        "ACTION",
        "suspend: make room for other claims while its cards have no work",
    ),
    (("--idle-after",), "idle_after", "value", "TIME", "idle after 90s, 10m (default: 60s)"),
    (("--reservation",), "reservation", "value", "NAME", "use the cards of that reservation"),
    (
        ("--network",),
        "network",
        "value",
        "NAME",
        "join that network; the command sees no other one. none: not the tenant's default one",
    ),
    (
        ("--security-group",),
        "security_group",
        "append",
        "GROUP",
        "of the network: its members and rules alone reach the job; may be repeated",
    ),
    (
        ("--address",),
        "address",
        "value",
        "ADDRESS",
        "have that address of the network: IPv4, IPv6, or both with a comma",
    ),
    (("--tenant",), "tenant", "value", "TENANT", "on behalf of another tenant (admins)"),
    (
        ("--project",),
        "project",
        "value",
        "PROJECT",
        "count its usage for this project of the tenant",
    ),
    (
        ("--no-wait",),
        "no_wait",
        "flag",
        None,
        "refuse instead of waiting when there is no room now",
    ),
    (
        ("--no-gang",),
        "no_gang",
        "flag",
        None,
        "refuse more cards than a node has instead of requesting a gang of several nodes",
    ),
    (("--no-fence",), "no_fence", "flag", None, "run without the fence"),
)
CHAIN: tuple[Option, ...] = (
    (("--retries",), "retries", "value", "N", "start it again up to N times after a failure"),
    (("--retry-backoff",), "retry_backoff", "value", "TIME[:MOST]", "first pause, doubled (default: 30s:10m)"),
    (("--after",), "after", "append", "JOB[:END]", "start when JOB has ended: ok, any or fail (default: ok)"),
)  # fmt: skip
RUN: tuple[Option, ...] = (
    (("--keep-output",), "keep_output", "flag", None, "log the output and copy it here: no terminal, no input"),
    (("--no-keep-output",), "no_keep_output", "flag", None, "keep nothing of what the terminal shows"),
    (("-q", "--quiet"), "quiet", "flag", None, "print only refusals"),
    (("-v", "--verbose"), "verbose", "flag", None, "print progress also when stderr is no terminal"),
)  # fmt: skip
SUBMIT: tuple[Option, ...] = (
    (("--array",), "array", "value", "N", "N jobs, NAME.0 to NAME.N-1; GPUPOOL_ARRAY_INDEX is the number"),
    (("--gang",), "gang", "value", "N", "N members, NAME.0 to NAME.N-1, that start together or not at all"),
    (("--gang-min",), "gang_min", "value", "M", "start when M of them have room; the others join later (default: all)"),
    (("--gang-file",), "gang_file", "value", "FILE", "a gang of roles with shares and commands of their own"),
    (("-o", "--output"), "output", "value", "FORMAT", "text or json (default: text)"),
)  # fmt: skip

OF = {
    "run": (*SHARE, *NEEDS, *JOB, *CHAIN, *CONTAINER, *RUN),
    "submit": (*SHARE, *NEEDS, *JOB, *CHAIN, *CONTAINER, *SUBMIT),
}


class ShareOptions:
    """The options that were given: an attribute per option of the command.

    What was not given is None, False or an empty list.
    """

    command: Sequence[str]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


def make_blank_options(command: str) -> ShareOptions:
    """Make the options of a command line that gives none."""
    options = ShareOptions()
    for _, dest, kind, _, _ in (*OF[command], *GLOBAL_OPTIONS):
        missing: object = None
        if kind == "flag":
            missing = False
        elif kind == "append":
            missing = []
        setattr(options, dest, missing)
    return options


def split_command(name: str, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the options of gpupool from the command to run.

    The command starts after `--`, or at the first word that is no option.
    """
    valued = set[str]()
    for flags, _, kind, _, _ in (*OF[name], *GLOBAL_OPTIONS):
        if kind != "flag":
            valued.update(flags)
    position = 0
    while position < len(words):
        word = words[position]
        if word == "--":
            return list(words[:position]), list(words[position + 1 :])
        if not word.startswith("-") or word == "-":
            break
        position += 2 if word in valued else 1
    return list(words[:position]), list(words[position:])


def read_plain(name: str, words: Sequence[str]) -> ShareOptions | None:
    """Read the options when every word is one from the table with its value; None for all else.

    None lets argparse look, which knows what to say of a wrong word.
    """
    known: dict[str, tuple[str, str]] = {}
    for flags, dest, kind, _, _ in (*OF[name], *GLOBAL_OPTIONS):
        known |= dict.fromkeys(flags, (dest, kind))
    options = make_blank_options(name)
    given, options.command = split_command(name, words)
    position = 0
    while position < len(given):
        flag, equals, value = given[position].partition("=")
        dest, kind = known.get(flag, ("", ""))
        position += 1
        if kind == "flag" and not equals:
            setattr(options, dest, True)
            continue
        # `-q=1` is no option of ours: `=` belongs to long options alone.
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


def make_job_body(options: ShareOptions, *, attached: bool, local: bool) -> dict[str, Any]:
    """Make the body that submits the job.

    Args:
        attached: Whether the job takes this terminal; then it is one job, no array and no gang.
        local: Whether the job will see this machine's files, so that its command is looked for.

    Raises:
        BadInput: An option has a wrong value; one of its subclasses.
    """
    from gpupool.client.submission import job_body

    container = None
    environ = None
    if any(getattr(options, option[1]) for option in CONTAINER):
        from gpupool.terminal.container_options import make_container

        container, environ = make_container(options, attached=attached, local=local)
    return job_body(
        options.command,
        gpu=options.gpu,
        memory=options.memory,
        count=options.count,
        model=options.model,
        labels=options.label,
        sharing=options.sharing,
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
        isolation=options.isolation,
        goal=options.goal,
        host=options.host,
        preemptible=options.preemptible,
        requeue=options.requeue,
        exact=options.exact,
        when_idle=options.when_idle,
        idle_after=options.idle_after,
        wait=not options.no_wait,
        fence=not options.no_fence,
        attached=attached,
        local=local,
        container=container,
        environ=environ,
        network=options.network,
        security_groups=options.security_group,
        address=options.address,
        after=options.after,
        retries=options.retries,
        retry_backoff=options.retry_backoff,
    )
