"""Every command: its name, its module, what it does in one line. Importing this imports no command."""

from __future__ import annotations

GROUPS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "Work",
        (
            ("run", "run a command in a share of a card, attached to this terminal"),
            ("submit", "hand in a command, or an array of them, to run when there is room"),
            ("ps", "list jobs"),
            ("show", "everything about one job, card, node or the pool"),
            ("logs", "print a job's output"),
            ("saved", "say that a job's work is saved"),
            ("resize", "give a running job another share"),
            ("stop", "end jobs and free their shares"),
            ("queue", "what waits, in the order of its turn"),
            ("explain", "why a job waits, or why it runs where it runs"),
            ("import", "what manifests and job scripts of other systems mean here"),
            ("top", "live view of cards, tenants and jobs"),
        ),
    ),
    (
        "Pool",
        (
            ("up", "start a pool on this machine"),
            ("down", "stop the pool; --purge removes it"),
            ("restart", "stop the server and start it again; jobs keep running"),
            ("backup", "save what a pool knows in one file"),
            ("restore", "make a pool from a backup"),
            ("doctor", "check this machine and the pool"),
            ("gpus", "list cards"),
            ("adopt", "let the pool hand cards out"),
            ("release", "take cards back from the pool"),
            ("reservation", "hold cards for a tenant from a time on"),
            ("events", "what happened in the pool, in order"),
        ),
    ),
    (
        "People and books",
        (
            ("whoami", "who the pool thinks you are, and your quota"),
            ("login", "remember a pool elsewhere and a token for it"),
            ("tenant", "create, list, show and delete tenants"),
            ("project", "create and list projects of a tenant"),
            ("user", "add, list, change and remove users"),
            ("token", "create, list and revoke tokens"),
            ("quota", "show and set what a tenant may hold"),
            ("report", "who used what: books that close"),
        ),
    ),
    (
        "Planning",
        (
            ("simulate", "try placement policies on a trace, with no pool and no card"),
            ("defrag", "which jobs to move so that whole nodes come free"),
            ("rebalance", "which shares to move so that cards are loaded more alike"),
            ("replay", "what the scheduler would decide today on the pool's own log"),
            ("whatif", "what the queue would come to with other nodes, policy or quotas"),
        ),
    ),
    (
        "Proof",
        (
            ("verify", "prove on the spot that a card's shares are what they promise"),
            ("burn", "load a share in chosen ways, and say what it got"),
        ),
    ),
    ("Shell", (("completion", "print the completion script for bash or zsh"),)),
)

_MODULES = {"import": "import_"}
"""Commands whose name Python keeps for itself."""


def module_of(name: str) -> str:
    """The module of a command."""
    return f"gpupool.cli.{_MODULES.get(name, name)}"


SUMMARIES = {name: summary for _, commands in GROUPS for name, summary in commands}

GLOBAL_OPTIONS: tuple[tuple[tuple[str, ...], str, str, str | None, str], ...] = (
    (("--state-dir",), "state_dir", "value", "DIR", "the pool with this state directory (also GPUPOOL_STATE_DIR)"),
    (("--no-color",), "no_color", "flag", None, "plain text, also on a terminal (also NO_COLOR)"),
)
"""Understood before and after the command: flags, name, kind, placeholder, help."""

EXIT_CODES: tuple[tuple[str, str], ...] = (
    ("0", "done"),
    ("1", "something went wrong inside gpupool"),
    ("2", "bad input: an option, a quantity, a name"),
    ("3", "refused: it makes sense and the answer is no"),
    ("4", "not logged in, or not allowed"),
    ("5", "not found"),
    ("6", "another client was first, or a pool runs already"),
    ("7", "no pool is running, or it cannot answer"),
    ("8", "verify: a promise was not kept"),
    ("127", "the command to run was not found"),
    ("130", "interrupted with Ctrl-C"),
)
"""`run` and `logs --exit-code` pass the job's own code through; 128 + N is the job's end by signal N."""
