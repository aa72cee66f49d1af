"""How a pool is asked to start: the flags of `python -m gpupool.host`, which are those of `gpupool
up`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

REACTIONS = ("warn", "freeze", "kill")


@dataclass(frozen=True)
class HostOptions:
    """The flags of one start; None or empty means as at the last start."""

    state_dir: Path
    sim: str | None = None
    listen: tuple[str, ...] = ()
    insecure_http: bool = False
    tls_cert: Path | None = None
    tls_key: Path | None = None
    store: str | None = None
    node_name: str | None = None
    ready_fd: int | None = None
    #: The backup that is written or restored.
    file: Path | None = None
    #: Whether the backup has the key of its secrets.
    with_key: bool = False
    agent: bool = True
    fence_reaction: str | None = None
    label: tuple[str, ...] = ()
    job_limit: tuple[str, ...] = ()
    allow_image: tuple[str, ...] = ()
    allow_volume: tuple[str, ...] = ()
    standby: bool | None = None


def parse_options(argv: Sequence[str]) -> tuple[str, HostOptions]:
    """Return what to do (run, purge, end-networks, facts, backup, restore) and the options."""
    parser = argparse.ArgumentParser(prog="python -m gpupool.host", description=__doc__)
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--purge",
        action="store_const",
        dest="what",
        const="purge",
        help="end and remove everything",
    )
    what.add_argument(
        "--facts",
        action="store_const",
        dest="what",
        const="facts",
        help="what this machine has, JSON",
    )
    what.add_argument(
        "--end-networks",
        action="store_const",
        dest="what",
        const="end-networks",
        help="end the engine of networks of a stopped pool",
    )
    what.add_argument("--backup", type=Path, metavar="FILE", help="save what the pool knows")
    parser.add_argument("--with-key", action="store_true", help="the backup has the secrets' key")
    what.add_argument("--restore", type=Path, metavar="FILE", help="make a pool from a backup")
    parser.add_argument("--state-dir", type=Path, required=True)
    parser.add_argument("--sim", help="simulated cards, like 4xL40S or 2x8xH200")
    parser.add_argument("--listen", action="append", default=[], metavar="HOST:PORT")
    parser.add_argument("--insecure-http", action="store_true")
    parser.add_argument("--tls-cert", type=Path)
    parser.add_argument("--tls-key", type=Path)
    parser.add_argument("--store", help="database URL; SQLite in the state directory by default")
    standby = parser.add_mutually_exclusive_group()
    standby.add_argument(
        "--standby",
        action="store_const",
        const=True,
        help="one of two servers on a PostgreSQL database",
    )
    standby.add_argument(
        "--no-standby", action="store_false", dest="standby", default=None, help="the only server"
    )
    parser.add_argument("--node-name")
    parser.add_argument(
        "--ready-fd", type=int, help="where to say that the pool is ready, or why it is not"
    )
    parser.add_argument(
        "--no-agent", action="store_false", dest="agent", help="the node's agent runs elsewhere"
    )
    parser.add_argument(
        "--fence-reaction", choices=REACTIONS, help="when a fenced job has more than its share"
    )
    parser.add_argument(
        "--label",
        action="append",
        default=[],
        metavar="[NODE:]KEY=VALUE",
        help="of its nodes, or of one",
    )
    parser.add_argument(
        "--job-limit", action="append", default=[], metavar="NAME=[SOFT:]HARD", help="of every job"
    )
    for flag in ("--allow-image", "--allow-volume"):
        parser.add_argument(flag, action="append", default=[], metavar="NAME", help="of containers")
    given = vars(parser.parse_args(argv))
    for name in ("listen", "label", "job_limit", "allow_image", "allow_volume"):
        given[name] = tuple(given[name])
    given["state_dir"] = given["state_dir"].absolute()
    what_else = {"backup": given.pop("backup"), "restore": given.pop("restore")}
    named = next((name for name, file in what_else.items() if file is not None), None)
    given["file"] = what_else[named] if named else None
    return given.pop("what") or named or "run", HostOptions(**given)
