"""`gpupool doctor`: this machine and the pool, looked at from outside; with and without a pool.

With `--fence` also from inside a share. Checks that need the server's or the agent's knowledge come
from a running pool, or from `python -m gpupool.host --facts`; `local_checks` reads the rest here.
"""

from __future__ import annotations

import argparse
import os
import site
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gpupool import __version__
from gpupool.base.errors import GpupoolError, NotFound, PoolLost, PoolNotRunning
from gpupool.cli.pool.absent_pool import ANSWER_SECONDS, describe_absent, describe_stuck
from gpupool.cli.pool.host_process import read_facts as machine_facts
from gpupool.cli.pool.local_checks import check_locally
from gpupool.terminal.check_rows import (
    FAIL,
    OK,
    WARN,
    Check,
    format_checks,
    format_fixes,
    make_check,
)
from gpupool.terminal.context import CommandContext
from gpupool.terminal.interrupt import interrupted_by_sigterm
from gpupool.terminal.output import count_noun, print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output

if TYPE_CHECKING:
    from gpupool.verification.bench import VerificationBench
    from gpupool.verification.findings import PromiseFinding


def register(parser: CommandParser) -> None:
    parser.about = """
    Exit code 0 when nothing is wrong; a warning (no driver: simulation works) is not wrong. With -o json the
    running server's pid is server.pid.

    Without --fence nothing is changed. With it a short job of the caller's own runs in a share of 0.05 GPU and 1 GiB,
    and proves on the spot that its limit is seen and enforced, its time counted and its process in the ledger; and
    each CUDA runtime found here (LD_LIBRARY_PATH, site-packages, the loader's cache) is asked under the fence
    whether it starts: it must not give error 103 there that it does not give without. Takes about 15 seconds and
    ends what it started, also after Ctrl-C.
    """
    parser.examples = ["gpupool doctor", "gpupool doctor --fence", "gpupool doctor --fix"]
    parser.add_argument(
        "--fence", action="store_true", help="test the fence with a short job in a small share"
    )
    parser.add_argument(
        "--fix", action="store_true", help="print only what mends the warnings; runs nothing"
    )
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    server, nodes, reached = _ask_server(context)
    checks = [*check_locally(context), *reached]
    checks += _check_machine(nodes, context)
    if options.fence:
        # What is tried below need not be suggested.
        for one in checks:
            one["next"] = "" if one["next"].startswith("gpupool doctor --fence") else one["next"]
        checks += _try_fence(context, nodes, pool_answers=server is not None)
    answer = {"version": __version__, "server": server, "checks": checks}
    if options.output != "table":
        print_data(answer, options.output)
    elif options.fix:
        sys.stdout.write(format_fixes(checks))
    else:
        sys.stdout.write(format_checks(checks, color=context.color) + "\n")
    return 1 if any(check["state"] == FAIL for check in checks) else 0


def _ask_server(
    context: CommandContext,
) -> tuple[dict[str, Any] | None, list[dict[str, Any]], list[Check]]:
    """Return the running pool, its nodes' facts, and the checks about it."""
    try:
        pool = context.api.request("GET", "pool", timeout=ANSWER_SECONDS)
        nodes = context.api.request("GET", "nodes", query={"limit": 1000}, timeout=ANSWER_SECONDS)[
            "items"
        ]
        own = _fetch_own_checks(context)
    except PoolNotRunning as error:
        return None, [], [describe_absent(context.state_dir, error)]
    except PoolLost as error:
        found = (
            describe_stuck(context.state_dir, error) if context.api.local else _failed_check(error)
        )
        return None, [], [found, *_ask_own_checks(context)]
    except GpupoolError as error:
        return None, [], [_failed_check(error), *_ask_own_checks(context)]
    return pool, nodes, list(_describe_pool(pool, nodes, str(context.api.endpoint), own))


def _failed_check(error: GpupoolError) -> Check:
    return make_check("pool", FAIL, f"{error.code}: {error.message}", error.hint)


def _ask_own_checks(context: CommandContext) -> list[Check]:
    """Fetch what a server that answers no question about its pool still says of itself."""
    try:
        return _fetch_own_checks(context)
    except GpupoolError:
        return []


def _fetch_own_checks(context: CommandContext) -> list[Check]:
    """Fetch what the server finds of itself; an older one has no such route."""
    try:
        found = context.api.request("GET", "checks", timeout=ANSWER_SECONDS)
    except NotFound:
        return []
    return [make_check(one["name"], one["state"], one["text"], one["next"]) for one in found]


def _describe_pool(
    pool: dict[str, Any], nodes: list[dict[str, Any]], place: str, own: Sequence[Check] = ()
) -> Iterator[Check]:
    yield make_check("pool", OK if pool["ready"] else WARN, f"answers at {place}, pid {pool['pid']}"
                + ("" if pool["ready"] else ", still taking its jobs back"))  # fmt: skip
    # A warning, not a failure: within a minor version client and server understand each other.
    same = pool["version"] == __version__
    said = f"client {__version__}, server {pool['version']}"
    yield make_check(
        "versions",
        OK if same else WARN,
        said,
        "" if same else "gpupool down, gpupool up  starts the new one",
    )
    away = [node["name"] for node in nodes if not node["ready"]]
    if away:
        yield make_check(
            "cards", WARN, f"of these nodes nothing is known now: {', '.join(away)}", "gpupool gpus"
        )
    else:
        yield make_check(
            "cards",
            OK,
            f"{count_noun(pool['devices'], 'card')} on {count_noun(len(nodes), 'node')}",
        )
    yield from own


def _check_machine(nodes: list[dict[str, Any]], context: CommandContext) -> list[Check]:
    """Check driver and cgroups: as the pool's node says, else as the host finds them now."""
    if nodes and context.api.local:
        # The agent has looked already; a second probe would open the driver once more.
        return _check_facts(nodes[0]["facts"], simulated=all(node["simulated"] for node in nodes))
    try:
        return _check_facts(machine_facts(context.state_dir), simulated=False)
    except (GpupoolError, subprocess.TimeoutExpired) as error:
        return [make_check("machine", FAIL, str(error))]


def _check_facts(known: dict[str, Any], *, simulated: bool) -> list[Check]:
    checks = []
    if "checks" in known:  # a newer host makes the rows itself
        for one in known["checks"]:
            checks.append(make_check(one["name"], one["state"], one["text"], one.get("next", "")))
        return checks
    for make in _FACT_CHECKS:
        checks.append(make(known, simulated))
    if known.get("accounting"):
        checks.append(make_check("accounting", OK, known["accounting"]))
    return checks


def _try_fence(
    context: CommandContext, nodes: list[dict[str, Any]], *, pool_answers: bool
) -> list[Check]:
    """Try the fence with a short job: each promise is a row."""
    from gpupool.verification.bench import VerificationBench
    from gpupool.verification.self_check import build_failure, check_share

    if not pool_answers:
        return [
            make_check("fence tried", FAIL, "no pool answers, and a share needs one", "gpupool up")
        ]
    simulated = all(node["simulated"] for node in nodes)
    with interrupted_by_sigterm(), VerificationBench(context.api, purpose="doctor") as bench:
        try:
            found = check_share(bench)
        except GpupoolError as error:
            return [_describe_finding(build_failure("fence tried", error))]
        return [*map(_describe_finding, found), *_try_runtimes(context, bench, simulated)]


def _try_runtimes(
    context: CommandContext, bench: VerificationBench, simulated: bool
) -> Iterator[Check]:
    from gpupool.verification.self_check import build_failure, check_runtime

    if not context.api.local:
        yield make_check(
            "cuda runtime",
            WARN,
            "asked only where the pool is on this machine",
            "gpupool doctor --fence  there",
        )
        return
    paths = _find_runtimes(simulated)
    if not paths:
        yield make_check("cuda runtime", OK, "none is found here: nothing to ask")
    for path in paths:
        try:
            yield _describe_finding(check_runtime(bench, path, simulated))
        except GpupoolError as error:
            yield _describe_finding(build_failure("cuda runtime", error))


def _find_runtimes(simulated: bool) -> list[str]:
    """Find the CUDA runtimes to ask.

    Simulated cards do not answer the self-test of the vendor's runtime, so there our own is asked.
    """
    from gpupool.burn.runtime import NAMES, find_runtimes
    from gpupool.mechanisms.driver.driver_files import find_simulated_libraries

    if not simulated:
        return find_runtimes(os.environ, site.getsitepackages())
    ours = find_simulated_libraries()
    return [str(ours / name) for name in NAMES] if ours else []


def _describe_finding(found: PromiseFinding) -> Check:
    state = {True: OK, False: FAIL, None: WARN}[found.kept]
    if found.kept:
        return make_check(found.title, state, found.measured)
    return make_check(
        found.title,
        state,
        f"{found.measured}; promised: {found.promised}",
        "gpupool verify  shows more",
    )


def _check_driver(known: dict[str, Any], simulated: bool) -> Check:
    if simulated:
        return make_check("driver", OK, "not needed: the cards of this pool are simulated")
    if known.get("driver_version"):
        cuda = f", CUDA {known['cuda_version']}" if known.get("cuda_version") else ""
        return make_check("driver", OK, f"NVIDIA {known['driver_version']}{cuda}")
    return make_check(
        "driver", OK, "no NVIDIA driver: fine, simulation works", "gpupool up --sim 4xL40S"
    )


def _check_cgroups(known: dict[str, Any], _simulated: bool) -> Check:
    kind = known.get("cgroups")
    if kind in ("v1", "v2"):
        return make_check(
            "cgroups", OK, f"cgroup {kind}: every process of a job is found and ended with it"
        )
    return make_check(
        "cgroups", WARN, "none that we may use: jobs are followed by process tree only"
    )


def _check_fence(known: dict[str, Any], simulated: bool) -> Check:
    """Check the best that a share gets on this node, why not more, and the reaction to a bypass."""
    fence = known.get("fence")
    if not fence:
        return make_check(
            "fence", WARN, "this node's agent says nothing of one: shares are counted only"
        )
    cards = "simulated cards" if simulated else "its cards"
    said = f"shares of {cards}: {fence['level']}: {fence['why']}; {fence['way']}; who leaves it: {fence['reaction']}"
    if fence["unclassified_count"]:
        some = ", ".join(fence["unclassified"][:3])
        said += f"; unknown to this fence: {some}" + (
            ", …" if fence["unclassified_count"] > 3 else ""
        )
    # Without it idle time of a share goes to no neighbour: limits hold, cards are used less.
    if "gpupool-arbiter" in fence["missing"]:
        return make_check(
            "fence",
            WARN,
            f"{said}; no arbiter: static parts of the time",
            "reinstall gpupool-native",
        )
    if fence["level"] == "none":
        return make_check("fence", WARN, said, "reinstall gpupool-native of the same version")
    return make_check(
        "fence",
        OK,
        said,
        "gpupool doctor --fence  tries it; gpupool verify  proves it on a free card",
    )


_FACT_CHECKS: tuple[Callable[[dict[str, Any], bool], Check], ...] = (
    _check_driver,
    _check_cgroups,
    _check_fence,
)
