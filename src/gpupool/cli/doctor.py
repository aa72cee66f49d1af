"""`gpupool doctor`: this machine and the pool, looked at from outside; works with and without a pool.

With `--fence` also from inside a share.

Checks that need the server's or the agent's knowledge come from a running pool, or from
`python -m gpupool.host --facts`; the rest is read here from /proc and the file system.
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
from gpupool.base.room import write_problem
from gpupool.cli.absent_pool import ANSWER_SECONDS, no_pool, stuck
from gpupool.cli.check_rows import FAIL, OK, WARN, Check, check, checks_table
from gpupool.cli.context import Context
from gpupool.cli.host_process import facts as machine_facts
from gpupool.cli.interrupt import interrupted_by_sigterm
from gpupool.cli.output import many, print_data
from gpupool.cli.parser import OBJECT_FORMATS, Parser, add_output

if TYPE_CHECKING:
    from gpupool.verification.bench import Bench
    from gpupool.verification.findings import Finding

LOW_DISK_BYTES = 1 << 30
NO_DISK_BYTES = 64 << 20
OTHER_SHARERS = {
    "nvidia-cuda-mps-control": "an MPS daemon",
    "nvidia-device-plugin": "the NVIDIA device plugin",
    "vgpu-scheduler-extender": "HAMi",
    "vGPUmonitor": "HAMi",
    "kubelet": "a kubelet",
    "slurmd": "a Slurm node daemon",
}


def register(parser: Parser) -> None:
    parser.about = """
    Exit code 0 when nothing is wrong; a warning (no driver: simulation works) is not wrong. With -o json the
    running server's pid is server.pid.

    Without --fence nothing is changed. With it a short job of the caller's own runs in a share of 0.05 GPU and 1 GiB,
    and proves on the spot that its limit is seen and enforced, its time counted and its process in the ledger; and
    each CUDA runtime found here (LD_LIBRARY_PATH, site-packages, the loader's cache) is asked under the fence
    whether it starts: it must not give error 103 there that it does not give without. Takes about 15 seconds and
    ends what it started, also after Ctrl-C.
    """
    parser.examples = ["gpupool doctor", "gpupool doctor --fence", "gpupool doctor -o json"]
    parser.add_argument("--fence", action="store_true", help="try the fence with a short job in a tiny share")
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: Context) -> int:
    server, nodes, reached = _server(context)
    checks = [*_local_checks(context), *reached]
    checks += _machine_checks(nodes, context)
    if options.fence:
        for one in checks:  # what is tried below need not be suggested
            one["next"] = "" if one["next"].startswith("gpupool doctor --fence") else one["next"]
        checks += _fence_tried(context, nodes, pool_answers=server is not None)
    answer = {"version": __version__, "server": server, "checks": checks}
    if options.output != "table":
        print_data(answer, options.output)
    else:
        sys.stdout.write(checks_table(checks, color=context.color) + "\n")
    return 1 if any(check["state"] == FAIL for check in checks) else 0


def _server(context: Context) -> tuple[dict[str, Any] | None, list[dict[str, Any]], list[Check]]:
    """The running pool, its nodes' facts, and the checks about it."""
    try:
        pool = context.api.request("GET", "pool", timeout=ANSWER_SECONDS)
        nodes = context.api.request("GET", "nodes", query={"limit": 1000}, timeout=ANSWER_SECONDS)["items"]
        own = _own_checks(context)
    except PoolNotRunning as error:
        return None, [], [no_pool(context.state_dir, error)]
    except PoolLost as error:
        found = stuck(context.state_dir, error) if context.api.local else _failed(error)
        return None, [], [found, *_last_words(context)]
    except GpupoolError as error:
        return None, [], [_failed(error), *_last_words(context)]
    return pool, nodes, list(_pool_checks(pool, nodes, str(context.api.endpoint), own))


def _failed(error: GpupoolError) -> Check:
    return check("pool", FAIL, f"{error.code}: {error.message}", error.hint)


def _last_words(context: Context) -> list[Check]:
    """What a server that answers no question about its pool still says of itself."""
    try:
        return _own_checks(context)
    except GpupoolError:
        return []


def _own_checks(context: Context) -> list[Check]:
    """What the server finds of itself; an older one is not asked."""
    try:
        found = context.api.request("GET", "checks", timeout=ANSWER_SECONDS)
    except NotFound:
        return []
    return [check(one["name"], one["state"], one["text"], one["next"]) for one in found]


def _pool_checks(
    pool: dict[str, Any], nodes: list[dict[str, Any]], place: str, own: Sequence[Check] = ()
) -> Iterator[Check]:
    yield check("pool", OK if pool["ready"] else WARN, f"answers at {place}, pid {pool['pid']}"
                + ("" if pool["ready"] else ", still taking its jobs back"))  # fmt: skip
    same = pool["version"] == __version__
    said = f"client {__version__}, server {pool['version']}"
    yield check("versions", OK if same else WARN, said, "" if same else "gpupool down, gpupool up  starts the new one")
    away = [node["name"] for node in nodes if not node["ready"]]
    if away:
        yield check("cards", WARN, f"of these nodes nothing is known now: {', '.join(away)}", "gpupool gpus")
    else:
        yield check("cards", OK, f"{many(pool['devices'], 'card')} on {many(len(nodes), 'node')}")
    yield from own


def _local_checks(context: Context) -> list[Check]:
    state_dir = context.state_dir
    return [
        _python(),
        _native(),
        _user_namespaces(),
        _state(state_dir),
        _disk(state_dir),
        _sharers(),
    ]


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    fine = sys.version_info >= (3, 11)
    return check("python", OK if fine else FAIL, f"{version} at {sys.executable}", "" if fine else "use 3.11 or newer")


def _native() -> Check:
    missing = "reinstall gpupool-native of the same version"
    try:
        import gpupool_native
    except ImportError:
        return check("supervisor", FAIL, "gpupool-native is not installed", missing)
    path = str(gpupool_native.shim_path())
    try:
        done = subprocess.run([path, "--version"], capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return check("supervisor", FAIL, f"{path} does not run: {error}", missing)
    said = done.stdout.decode("utf-8", "replace").strip()
    if done.returncode:
        return check("supervisor", FAIL, f"{path} --version ends with {done.returncode}", missing)
    return check("supervisor", OK, f"{said or 'runs'} at {path}")


def _user_namespaces(proc: str = "/proc") -> Check:
    allowed = _number(f"{proc}/sys/user/max_user_namespaces")
    clone = _number(f"{proc}/sys/kernel/unprivileged_userns_clone")
    if os.getuid() == 0:
        return check("isolation", OK, "root: jobs run as their callers, other cards can be denied to them")
    if allowed == 0 or clone == 0:
        return check("isolation", WARN, "user namespaces are switched off: other cards are hidden, not denied")
    return check("isolation", OK, "user namespaces are allowed")


def _number(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def _state(state_dir: str) -> Check:
    if not os.path.exists(state_dir):
        return check("state", OK, f"{state_dir} does not exist yet")
    if not os.access(state_dir, os.W_OK | os.X_OK):
        return check("state", WARN, f"{state_dir} is not yours to write", "it belongs to another user's pool")
    problem = write_problem(state_dir)
    if problem:
        return check("state", FAIL, f"{state_dir} cannot be written: {problem}", "see dmesg; mount it writable")
    return check("state", OK, state_dir)


def _disk(state_dir: str) -> Check:
    place = state_dir
    while not os.path.exists(place):
        place = os.path.dirname(place)
    found = os.statvfs(place)
    free = found.f_bavail * found.f_frsize
    said = f"{free >> 20} MiB free at {place}"
    if free < NO_DISK_BYTES:
        return check("disk", FAIL, said, "free some space: without it no job starts and no log is written")
    return check("disk", OK, said) if free >= LOW_DISK_BYTES else check("disk", WARN, said, "make room: logs need it")


def _sharers(proc: str = "/proc") -> Check:
    """Other programs on this machine that hand cards out."""
    found = sorted({f"{what} ({name})" for name in _processes(proc) if (what := OTHER_SHARERS.get(name))})
    if not found:
        return check("other sharers", OK, "none is running")
    return check("other sharers", WARN, ", ".join(found), "adopt only cards that it does not hand out")


def _processes(proc: str) -> Iterator[str]:
    """Names of running programs: /proc/PID/comm cuts at 15 characters, the command line does not."""
    for entry in os.listdir(proc):
        if not entry.isdigit():
            continue
        try:
            with open(f"{proc}/{entry}/cmdline", "rb") as file:
                first = file.read(4096).split(b"\0")[0]
        except OSError:
            continue  # it has ended since it was listed
        yield os.path.basename(first.decode("utf-8", "replace"))


def _machine_checks(nodes: list[dict[str, Any]], context: Context) -> list[Check]:
    """Driver and cgroups: as the running pool's node says, else as the host finds them now."""
    if nodes and context.api.local:
        return _fact_checks(nodes[0]["facts"], simulated=all(node["simulated"] for node in nodes))
    try:
        return _fact_checks(machine_facts(context.state_dir), simulated=False)
    except (GpupoolError, subprocess.TimeoutExpired) as error:
        return [check("machine", FAIL, str(error))]


def _fact_checks(known: dict[str, Any], *, simulated: bool) -> list[Check]:
    if "checks" in known:
        return [check(one["name"], one["state"], one["text"], one.get("next", "")) for one in known["checks"]]
    accounting = [check("accounting", OK, known["accounting"])] if known.get("accounting") else []
    return [*(make(known, simulated) for make in _FACT_CHECKS), *accounting]


def _fence_tried(context: Context, nodes: list[dict[str, Any]], *, pool_answers: bool) -> list[Check]:
    """The fence, tried: each promise a row."""
    from gpupool.verification.bench import Bench
    from gpupool.verification.self_check import could_not, share

    if not pool_answers:
        return [check("fence tried", FAIL, "no pool answers, and a share needs one", "gpupool up")]
    simulated = all(node["simulated"] for node in nodes)
    with interrupted_by_sigterm(), Bench(context.api, purpose="doctor") as bench:
        try:
            found = share(bench)
        except GpupoolError as error:
            return [_tried(could_not("fence tried", error))]
        return [*map(_tried, found), *_runtimes_tried(context, bench, simulated)]


def _runtimes_tried(context: Context, bench: Bench, simulated: bool) -> Iterator[Check]:
    from gpupool.verification.self_check import could_not, runtime

    if not context.api.local:
        yield check(
            "cuda runtime", WARN, "asked only where the pool is on this machine", "gpupool doctor --fence  there"
        )
        return
    paths = _runtimes(simulated)
    if not paths:
        yield check("cuda runtime", OK, "none is found here: nothing to ask")
    for path in paths:
        try:
            yield _tried(runtime(bench, path, simulated))
        except GpupoolError as error:
            yield _tried(could_not("cuda runtime", error))


def _runtimes(simulated: bool) -> list[str]:
    """Simulated cards do not answer the self-test of the vendor's runtime, so there our own is asked."""
    from gpupool.burn.runtime import NAMES, found
    from gpupool.mechanisms.driver_files import simulated_libraries

    if not simulated:
        return found(os.environ, site.getsitepackages())
    ours = simulated_libraries()
    return [str(ours / name) for name in NAMES] if ours else []


def _tried(found: Finding) -> Check:
    state = {True: OK, False: FAIL, None: WARN}[found.kept]
    if found.kept:
        return check(found.title, state, found.measured)
    return check(found.title, state, f"{found.measured}; promised: {found.promised}", "gpupool verify  shows more")


def _driver(known: dict[str, Any], simulated: bool) -> Check:
    if simulated:
        return check("driver", OK, "not needed: the cards of this pool are simulated")
    if known.get("driver_version"):
        cuda = f", CUDA {known['cuda_version']}" if known.get("cuda_version") else ""
        return check("driver", OK, f"NVIDIA {known['driver_version']}{cuda}")
    return check("driver", OK, "no NVIDIA driver: fine, simulation works", "gpupool up --sim 4xL40S")


def _cgroups(known: dict[str, Any], _simulated: bool) -> Check:
    kind = known.get("cgroups")
    if kind in ("v1", "v2"):
        return check("cgroups", OK, f"cgroup {kind}: every process of a job is found and ended with it")
    return check("cgroups", WARN, "none that we may use: jobs are followed by process tree only")


def _fence(known: dict[str, Any], simulated: bool) -> Check:
    """The best that a share gets on this node, why not more, and what befalls who leaves it."""
    fence = known.get("fence")
    if not fence:
        return check("fence", WARN, "this node's agent says nothing of one: shares are counted only")
    cards = "simulated cards" if simulated else "its cards"
    said = f"shares of {cards}: {fence['level']}: {fence['why']}; {fence['way']}; who leaves it: {fence['reaction']}"
    if fence["unclassified_count"]:
        some = ", ".join(fence["unclassified"][:3])
        said += f"; unknown to this fence: {some}" + (", …" if fence["unclassified_count"] > 3 else "")
    if "gpupool-arbiter" in fence["missing"]:
        return check("fence", WARN, f"{said}; no arbiter: static parts of the time", "reinstall gpupool-native")
    if fence["level"] == "none":
        return check("fence", WARN, said, "reinstall gpupool-native of the same version")
    return check("fence", OK, said, "gpupool doctor --fence  tries it; gpupool verify  proves it on a free card")


_FACT_CHECKS: tuple[Callable[[dict[str, Any], bool], Check], ...] = (_driver, _cgroups, _fence)
