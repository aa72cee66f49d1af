"""Every command: its name, its module, what it does in one line.

Importing this module imports no command: `run` and `submit` pass here before every job.
"""

from __future__ import annotations

#: The order is that of `gpupool --help`: by title, then the name and summary of each command.
GROUPS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "Work",
        (
            ("run", "run a command in a share of a card, attached to this terminal"),
            ("submit", "submit a command, or an array of commands, to run when there is room"),
            ("sbatch", "submit a job script of Slurm as it is, and say what is different here"),
            ("ps", "list jobs"),
            ("show", "everything about one job, card, node or the pool"),
            ("logs", "print a job's output"),
            ("expose", "publish a port of a job by a load balancer of its network"),
            ("unexpose", "publish a port of a job no more"),
            ("port-forward", "reach a port of your running job from this machine"),
            ("exec", "run a program, or your shell, in a running job"),
            ("cp", "copy files to and from running jobs"),
            ("ssh", "log in to a running job by OpenSSH"),
            ("ssh-config", "lines for ~/.ssh/config, for sftp, scp and editors"),
            ("notebook", "start JupyterLab in a share, and print a link to it"),
            ("template", "run notebooks, trainings, sweeps and services by a few fields"),
            ("saved", "tell the pool that a job's work is saved"),
            ("resize", "change the share of a running job"),
            ("suspend", "move a running job to main memory and free its share"),
            ("resume", "bring a suspended job back to its cards"),
            ("idle", "jobs that do not use their share: list, keep, report, policies"),
            ("stop", "end jobs and free their shares"),
            ("queue", "waiting jobs, in queue order"),
            ("image", "load and list the container images of this machine"),
            ("explain", "why a job waits, or why it runs where it runs"),
            ("import", "what manifests and job scripts of other systems mean here"),
            ("top", "live view of cards, tenants and jobs"),
            ("use", "what a running job used of its share since it started"),
            ("service", "replicas of a server behind one address, as many as the load needs"),
            ("vm", "virtual machines with whole cards: run, list, console, stop, delete"),
        ),
    ),
    (
        "Pool",
        (
            ("up", "start a pool on this machine"),
            ("down", "stop the pool; --purge removes it"),
            ("restart", "stop the server and start it again; jobs keep running"),
            ("backup", "save the state of a pool in one file"),
            ("restore", "make a pool from a backup"),
            ("secrets", "the key that encrypts stored secrets: show and rotate it"),
            ("bundle", "check an archive for machines without a network"),
            ("console", "print a link that opens the web console in a browser"),
            ("doctor", "check this machine and the pool"),
            ("overview", "the pool at one look: held, free, waiting, failing, your jobs"),
            ("gpus", "list cards"),
            ("mechanisms", "what each card can do: now, after a switch, never, and why"),
            ("adopt", "let the pool hand out cards"),
            ("release", "take cards back from the pool"),
            ("mode", "set a card up for MIG, MPS, VMs …"),
            ("network", "networks of tenants: create, list, show, delete; enable the engine"),
            ("reservation", "reserve cards for a tenant and a time"),
            ("faults", "incidents of cards: what failed, which jobs it hit, what to do"),
            ("events", "events of the pool, in order"),
        ),
    ),
    (
        "People and usage",
        (
            ("whoami", "your user, tenant, role and quota"),
            ("login", "save the address and a token of a remote pool"),
            ("tenant", "create, list, show and delete tenants"),
            ("project", "create and list projects of a tenant"),
            ("user", "add, list, change and remove users"),
            ("token", "create, list and revoke tokens"),
            ("session", "list and end logins of browsers"),
            ("sso", "logins by an identity provider or directory, and their rights"),
            ("quota", "show and set what a tenant may hold"),
            ("price", "price lists: what a card costs an hour, from when on"),
            ("energy", "PUE and emissions of the grid: what turns kWh into CO2e"),
            ("budget", "what tenants, projects and users may spend, and where they stand"),
            ("report", "usage and costs by tenant, project, user, job or card"),
            ("audit", "the log of what users did: list, export and verify it"),
            ("notify", "messages about jobs, budgets and cards by mail and chat"),
        ),
    ),
    (
        "Planning",
        (
            ("schedule", "submit a job again and again, at the instants of a cron expression"),
            ("simulate", "compare placement policies on a trace; needs no pool and no card"),
            ("defrag", "which jobs to move so that whole nodes become free"),
            ("rebalance", "which shares to move to balance the load of cards"),
            ("advise", "what families of jobs should ask for, by what they used"),
            ("mig", "plan partitions for a demand, switch cards to MIG"),
            ("replay", "compare the pool's log with what the scheduler decides today"),
            ("whatif", "forecast the queue with other nodes, policy or quotas"),
        ),
    ),
    (
        "Proof",
        (
            ("verify", "prove with real jobs that a card's shares hold"),
            ("burn", "load a share in chosen ways and measure it"),
        ),
    ),
    ("Shell", (("completion", "print the completion script for bash or zsh"),)),
)

#: By group, the package below `gpupool.cli` that holds its commands.
_PACKAGES = {
    "Work": "work",
    "Pool": "pool",
    "People and usage": "accounts",
    "Planning": "planning",
    "Proof": "proof",
}

#: Commands whose module is not named after group and command.
_MODULES = {
    "import": "work.import_",
    "saved": "work.saved_work",
    "gpus": "work.gpus",
    "use": "accounts.use",
    "suspend": "suspension.suspend",
    "resume": "suspension.resume",
    "idle": "suspension.idle",
    "advise": "rightsizing.advise",
    "network": "network.network",
    "expose": "network.expose",
    "unexpose": "network.unexpose",
    "port-forward": "workspace.port_forward",
    "exec": "workspace.exec",
    "cp": "workspace.cp",
    "ssh": "workspace.ssh",
    "ssh-config": "workspace.ssh_config",
    "notebook": "workspace.notebook",
    "template": "templates.template",
    "service": "serving.service",
    "sso": "signon.sso",
    "secrets": "signon.secrets",
    "completion": "completion",
}


def find_module(name: str) -> str:
    """Return the module of a command."""
    if name in _MODULES:
        return f"gpupool.cli.{_MODULES[name]}"
    return f"gpupool.cli.{_PACKAGES[_GROUP_OF[name]]}.{name}"


SUMMARIES = {name: summary for _, commands in GROUPS for name, summary in commands}

_GROUP_OF = {name: group for group, commands in GROUPS for name, _ in commands}

#: Understood before and after the command: flags, name, kind, placeholder, help.
# Plain tuples, not dataclasses: those import inspect, which costs more than reading the options.
GLOBAL_OPTIONS: tuple[tuple[tuple[str, ...], str, str, str | None, str], ...] = (
    (
        ("--state-dir",),
        "state_dir",
        "value",
        "DIR",
        "the pool with this state directory (also GPUPOOL_STATE_DIR)",
    ),
    (("--no-color",), "no_color", "flag", None, "plain text, also on a terminal (also NO_COLOR)"),
    (("--lang",), "lang", "value", "LANG", "en or zh (default: by GPUPOOL_LANG, LC_ALL, LANG)"),
)

#: `run` and `logs --exit-code` pass the job's own code through; 128 + N is the job's end by signal
#: N.
EXIT_CODES: tuple[tuple[str, str], ...] = (
    ("0", "done"),
    ("1", "something went wrong inside gpupool"),
    ("2", "bad input: an option, a quantity, a name"),
    ("3", "refused: it makes sense and the answer is no"),
    ("4", "not logged in, or not allowed"),
    ("5", "not found"),
    ("6", "another client was first, or a pool runs already"),
    ("7", "no pool is running, or it cannot answer"),
    # Its own code, so that a script tells a broken promise from a pool that could not be asked.
    ("8", "verify: a promise was not kept"),
    ("127", "the command to run was not found"),
    ("130", "interrupted with Ctrl-C"),
)
