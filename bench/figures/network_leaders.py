"""The databases of networks on three machines: what the end of a leader or of a machine costs.

As root, with OVN's packages. A datagram every 20 ms passes between jobs on two machines, and a rule
of a security group is written right after each kill: worst of ten rounds, until a packet passes by
that rule, and the longest time without an answer to the others.
"""

import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

from bench.rows import Row
from gpupool.agent.network.daemons import find_missing_programs
from tests.support.network_leaders import Cost, LeaderScene, Traffic, measure
from tests.support.several_machines import list_processes, several_machines

NAME = "network-leaders"
COMMAND = "python -m bench network-leaders"
#: BENCH_KILLS cuts it short.
ROUNDS = int(os.environ.get("BENCH_KILLS", "10"))
NODES = ("sim-0", "machine-1", "machine-2")
#: Seconds until a change is in force, and without an answer: a gap is more than that.
CHANGE_SECONDS = 2.5
GAP_SECONDS = 0.1


def run(out: Path) -> list[Row]:
    missing = find_missing_programs()
    if missing or shutil.which("nft") is None:
        packages = ", ".join(sorted({*missing.values(), "nftables"}))
        raise SystemExit(f"{NAME}: needs the packages {packages}")
    rows = list[Row]()
    with several_machines() as machines:
        scene = LeaderScene(machines)
        with scene.traffic() as traffic:
            cost = measure(traffic, scene.rules, lambda: scene.choose(*NODES))
            scene.await_whole()
            rows += _make_rows("one machine's databases become a cluster of three", [cost], None)
            # What the machine itself costs, on which other programs may run.
            costs = [measure(traffic, scene.rules, lambda: None) for _ in range(ROUNDS)]
            rows += _make_rows("nothing killed", costs, None)
            for database in ("northbound", "southbound"):
                costs = [_kill_leader(scene, traffic, database) for _ in range(ROUNDS)]
                rows += _make_rows(f"the leader of the {database} database killed", costs)
            costs = [_kill_machine(scene, traffic) for _ in range(ROUNDS)]
            rows += _make_rows("a machine killed", costs)
            costs = [
                _restart_databases(scene, traffic, NODES[number % len(NODES)])
                for number in range(ROUNDS)
            ]
            rows += _make_rows("databases restarted on one machine after the other", costs)
    return rows


def _make_rows(
    event: str, costs: Sequence[Cost], limit: float | None = CHANGE_SECONDS
) -> list[Row]:
    """Make the rows of an event; without a limit the figures are for comparison alone."""
    changes = tuple(round(cost.change, 3) for cost in costs)
    gaps = tuple(round(cost.traffic, 3) for cost in costs)
    note = f"median {sorted(changes)[len(changes) // 2]} s"
    return [
        Row(
            f"{event}: a change in force",
            "s",
            max(changes),
            COMMAND,
            limit=limit,
            samples=changes,
            note=note,
        ),
        Row(
            f"{event}: longest time without an answer",
            "s",
            max(gaps),
            COMMAND,
            limit=None if limit is None else GAP_SECONDS,
            samples=gaps,
        ),
    ]


def _kill_leader(scene: LeaderScene, traffic: Traffic, database: str) -> Cost:
    leader = scene.cluster.find_leader(database)
    cost = measure(traffic, scene.rules, lambda: scene.cluster.kill(leader, database))
    scene.await_whole()
    return cost


def _kill_machine(scene: LeaderScene, traffic: Traffic) -> Cost:
    member = scene.machines.members[0]

    def kill() -> None:
        member.kill_agent()
        for pid in list_processes(member.mark):
            os.kill(pid, signal.SIGKILL)

    cost = measure(traffic, scene.rules, kill)
    scene.machines.start_agent(member)
    scene.await_whole()
    return cost


def _restart_databases(scene: LeaderScene, traffic: Traffic, node: str) -> Cost:
    daemons = ("northbound", "southbound", "northd")
    cost = measure(traffic, scene.rules, lambda: scene.cluster.kill(node, *daemons))
    scene.await_whole()
    return cost
