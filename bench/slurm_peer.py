"""Slurm from Debian's packages, set up by hand in a private directory: the peer our latencies are
compared with.

One node, fake cards (links to /dev/null: nothing here opens them), no accounting, no cgroups,
everything on loopback and inside one directory. `Tuning.DEFAULT` leaves Slurm's scheduler as it
comes; `Tuning.FAST` shortens the waits of its scheduler, because arrays of short jobs end two to
three times sooner then (bench/README.md).

    .venv/bin/python -m bench.slurm_peer            # measures srun, sbatch and arrays and prints the figures

This module knows nothing of gpupool: it only says how fast Slurm is here.
"""

import argparse
import contextlib
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tests.support.processes import die_with_owner, stop_surely

PROGRAMS = ("slurmctld", "slurmd", "srun", "sbatch", "squeue", "scancel", "sinfo", "munged")
PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
INSTALL = ("apt-get", "install", "-y", "--no-install-recommends", *PACKAGES)
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
NO_START_POLICY = Path("/usr/sbin/policy-rc.d")  # Debian asks it before a package starts its daemon
SHARES_PER_GPU = 10  # a tenth of a card is our bench's share; Slurm's word for it is a shard
UNREACHABLE = "unreachable"
READY_LIMIT_SECONDS = 30
EMPTY_LIMIT_SECONDS = 60
ARRAY_LIMIT_SECONDS = 900
POLL_SECONDS = (
    0.2  # squeue took 4 ms with 1000 jobs pending (median of 50), 2.7 ms of it CPU of the client
)

CONFIGURATION = """\
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={workdir}/munge/socket
StateSaveLocation={workdir}/state
SlurmdSpoolDir={workdir}/spool
SlurmctldPidFile={workdir}/slurmctld.pid
SlurmdPidFile={workdir}/slurmd.pid
SlurmctldLogFile={workdir}/slurmctld.log
SlurmdLogFile={workdir}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
GresTypes=gpu,shard
SchedulerType=sched/backfill
{scheduler_parameters}
# More CPUs than the machine has, so that cards or shards are what runs out.
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} Gres=gpu:{gpus},shard:{shards} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class PeerMissingError(Exception):
    """Slurm cannot be had here, so there is nothing to compare with; the message says why."""


class PeerFailedError(Exception):
    """Slurm is here and did not do what it was asked; the message has its own words."""


class Tuning(Enum):
    """SchedulerParameters: as Slurm comes, or with the waits before and between scheduling runs
    shortened."""

    DEFAULT = ""
    FAST = "SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,default_queue_depth=1000"


@dataclass(frozen=True)
class Measured:
    """One figure: what was typed, how often, and every sample."""

    name: str
    command: str
    samples_seconds: tuple[float, ...]

    @property
    def median_seconds(self) -> float:
        return statistics.median(self.samples_seconds)

    @property
    def total_seconds(self) -> float:
        return sum(self.samples_seconds)


@dataclass(frozen=True)
class Slurm:
    """A running cluster of one node. `env` is what a Slurm client needs to find it."""

    workdir: Path
    gpus: int
    shards: int
    tuning: Tuning
    env: dict[str, str]

    def srun(self, *arguments: str) -> str:
        """Run attached, wait for the end, return its standard output."""
        return self._client("srun", *arguments)

    def sbatch(self, *arguments: str) -> int:
        """Submit and return the job's id; output files go to /dev/null."""
        silent = ("--output=/dev/null", "--error=/dev/null", "--parsable")
        return int(self._client("sbatch", *silent, *arguments).split(";")[0])

    def states(self, job_id: int | None = None) -> Counter[str]:
        """How many jobs (array tasks singly) are in each state; ended ones for Slurm's MinJobAge,
        300 s."""
        of_one = () if job_id is None else (f"--jobs={job_id}",)
        return Counter(self._client("squeue", "-h", "-r", "-t", "all", "-o", "%T", *of_one).split())

    def unended(self) -> int:
        """How many jobs wait, run or complete."""
        return len(self._client("squeue", "-h", "-o", "%i").split())

    def cancel_all(self) -> None:
        self._client("scancel", "--user=root")
        _await("the queue to be empty", lambda: self.unended() == 0, EMPTY_LIMIT_SECONDS)

    def _client(self, program: str, *arguments: str) -> str:
        done = subprocess.run(
            [program, *arguments],
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            raise PeerFailedError(
                f"{program} {' '.join(arguments)} exited {done.returncode}: {done.stderr}"
            )
        return done.stdout


@contextlib.contextmanager
def slurm_cluster(
    workdir: Path, gpus: int = 8, cpus: int | None = None, tuning: Tuning = Tuning.DEFAULT
) -> Iterator[Slurm]:
    """Run munged, slurmctld and slurmd inside `workdir` (which must exist) and stop them on
    leaving.

    `cpus` defaults to one per shard, so that they never run out first. Needs root, as slurmd does.
    Installs Debian's packages where they are missing; raises PeerMissingError where that cannot be.
    The daemons also end when the thread that called this dies.
    """
    ensure_installed()
    slurm = _configure(workdir.resolve(), gpus, cpus or gpus * SHARES_PER_GPU, tuning)
    with contextlib.ExitStack() as stack:
        stack.callback(_kill_leftovers, slurm.workdir)
        stack.enter_context(_munge(slurm))
        stack.enter_context(_daemon(slurm, "slurmctld", "-D", "-i"))
        _await_node(slurm, "slurmctld", lambda state: state != UNREACHABLE)
        stack.enter_context(_daemon(slurm, "slurmd", "-D"))
        _await_node(slurm, "slurmd", lambda state: state == "idle")
        yield slurm
        slurm.cancel_all()


def ensure_installed() -> None:
    """Find Slurm's programs, or install Debian's packages (root only); idempotent."""
    if os.geteuid() != 0:
        raise PeerMissingError(
            "Slurm's slurmd needs uid 0; run the bench as root to compare with it"
        )
    if not _missing():
        return
    if shutil.which("apt-get") is None:
        raise PeerMissingError(
            f"{', '.join(_missing())} not found, and no apt-get to install them with"
        )
    with _daemons_stay_stopped():
        done = subprocess.run(
            INSTALL,
            env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
            capture_output=True,
            text=True,
        )
    if done.returncode != 0 or _missing():
        raise PeerMissingError(
            f"`{' '.join(INSTALL)}` exited {done.returncode}: {done.stderr.strip()}"
        )


def time_srun(slurm: Slurm, n: int = 30, gres: str = "gpu:1") -> Measured:
    """Wall time of `srun --gres=… true`, one after the other."""
    samples = tuple(_timed(lambda: slurm.srun(f"--gres={gres}", "true")) for _ in range(n))
    return Measured(f"srun {gres}", f"srun --gres={gres} true", samples)


def time_sbatch(slurm: Slurm, n: int = 100, gres: str | None = None) -> Measured:
    """Wall time of each of n single submissions; the jobs themselves may end later."""
    asked = () if gres is None else (f"--gres={gres}",)
    samples = tuple(_timed(lambda: slurm.sbatch(*asked, "--wrap=true")) for _ in range(n))
    _await("the queue to be empty", lambda: slurm.unended() == 0, ARRAY_LIMIT_SECONDS)
    return Measured(
        f"sbatch {gres or 'plain'}", " ".join(("sbatch", *asked, "--wrap=true")), samples
    )


def time_array(slurm: Slurm, n: int = 1000, gres: str = "gpu:1") -> Measured:
    """Wall time from submitting one array of n jobs until all have ended; one sample. Fails if any
    job did."""
    job_ids: list[int] = []

    def submit_and_wait() -> None:
        job_ids.append(slurm.sbatch(f"--gres={gres}", f"--array=1-{n}", "--wrap=true"))
        _await("the array to end", lambda: slurm.unended() == 0, ARRAY_LIMIT_SECONDS, POLL_SECONDS)

    sample = _timed(submit_and_wait)
    states = slurm.states(job_ids[0])
    if states != Counter({"COMPLETED": n}):
        raise PeerFailedError(f"of {n} jobs of the array {dict(states)}")
    return Measured(f"array {gres}", f"sbatch --array=1-{n} --gres={gres} --wrap=true", (sample,))


def _timed(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def _missing() -> list[str]:
    return [program for program in PROGRAMS if shutil.which(program, path=SYSTEM_PATH) is None]


@contextlib.contextmanager
def _daemons_stay_stopped() -> Iterator[None]:
    """Let packages be installed without starting their services: nothing may run that we do not
    stop."""
    if NO_START_POLICY.exists():
        yield
        return
    NO_START_POLICY.write_text("#!/bin/sh\nexit 101\n")
    NO_START_POLICY.chmod(0o755)
    try:
        yield
    finally:
        NO_START_POLICY.unlink()


def _configure(workdir: Path, gpus: int, cpus: int, tuning: Tuning) -> Slurm:
    for name in ("etc", "state", "spool", "dev", "munge"):
        (workdir / name).mkdir(mode=0o755)
    shards = gpus * SHARES_PER_GPU
    for index in range(gpus):
        (workdir / "dev" / f"gpu{index}").symlink_to(
            "/dev/null"
        )  # slurmd wants device nodes, opens none
    (workdir / "etc/gres.conf").write_text(
        f"Name=gpu File={workdir}/dev/gpu[0-{gpus - 1}]\nName=shard Count={shards}\n"
    )
    (workdir / "etc/slurm.conf").write_text(_configuration(workdir, gpus, cpus, shards, tuning))
    env = os.environ | {"SLURM_CONF": str(workdir / "etc/slurm.conf"), "PATH": SYSTEM_PATH}
    return Slurm(workdir, gpus, shards, tuning, env)


def _configuration(workdir: Path, gpus: int, cpus: int, shards: int, tuning: Tuning) -> str:
    controller_port, node_port = _free_ports(2)
    return CONFIGURATION.format(
        host=socket.gethostname().split(".")[0],
        workdir=workdir,
        controller_port=controller_port,
        node_port=node_port,
        scheduler_parameters=tuning.value or "# SchedulerParameters: Slurm's defaults",
        cpus=cpus,
        gpus=gpus,
        shards=shards,
    )


def _free_ports(count: int) -> list[int]:
    """Ports nobody listens on now; held together while asking, so that they differ."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


@contextlib.contextmanager
def _munge(slurm: Slurm) -> Iterator[None]:
    home = slurm.workdir / "munge"
    (home / "key").touch(mode=0o600)
    (home / "key").write_bytes(os.urandom(128))
    files = {
        "key-file": "key",
        "socket": "socket",
        "pid-file": "pid",
        "log-file": "log",
        "seed-file": "seed",
    }
    options = [f"--{option}={home / name}" for option, name in files.items()]
    # --force: other users need not reach the socket, so closed parent directories are well.
    with _daemon(slurm, "munged", "--foreground", "--force", *options) as process:
        _await(
            "munged's socket",
            lambda: (home / "socket").exists() or _ended(process),
            READY_LIMIT_SECONDS,
        )
        if _ended(process):
            raise PeerFailedError(
                f"munged ended: {(slurm.workdir / 'munged.out').read_text(errors='replace')}"
            )
        yield


def _ended(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is not None


@contextlib.contextmanager
def _daemon(slurm: Slurm, program: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    output = slurm.workdir / f"{program}.out"
    with output.open("wb") as words:
        process = subprocess.Popen(
            [program, *options],
            env=slurm.env,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_owner(signal.SIGTERM),
        )
    try:
        yield process
        if _ended(process):
            raise PeerFailedError(
                f"{program} ended by itself: {output.read_text(errors='replace')}"
            )
    finally:
        stop_surely(process, (signal.SIGTERM,))


def _node_state(slurm: Slurm) -> str:
    with contextlib.suppress(PeerFailedError):  # the controller does not answer yet
        return slurm._client("sinfo", "-h", "-N", "-o", "%T").strip()
    return UNREACHABLE


def _await_node(slurm: Slurm, daemon: str, holds: Callable[[str], bool]) -> None:
    try:
        _await(f"{daemon} to be ready", lambda: holds(_node_state(slurm)), READY_LIMIT_SECONDS)
    except PeerFailedError as failure:
        words = (slurm.workdir / f"{daemon}.log").read_text(errors="replace")
        raise PeerFailedError(
            f"{failure}; the node is {_node_state(slurm)}; {daemon} says:\n{words}"
        ) from None


def _await(
    what: str, holds: Callable[[], bool], limit_seconds: float, every_seconds: float = 0.05
) -> None:
    deadline = time.monotonic() + limit_seconds
    while not holds():
        if time.monotonic() > deadline:
            raise PeerFailedError(f"waited {limit_seconds:.0f} s for {what}")
        time.sleep(every_seconds)


def _kill_leftovers(workdir: Path) -> None:
    """End step daemons and jobs of this cluster that outlived slurmd."""
    for process in leftovers(workdir):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def leftovers(workdir: Path) -> list[int]:
    """Processes of the cluster in `workdir`: their environment names its slurm.conf, or their
    command line it."""
    directory = os.fsencode(workdir.resolve())
    environment = b"SLURM_CONF=" + os.fsencode(workdir.resolve() / "etc/slurm.conf")
    return [
        pid
        for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
        if pid != os.getpid()
        and (environment in _proc(pid, "environ") or directory in _proc(pid, "cmdline"))
    ]


def _proc(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""  # it ended while we looked, or is not ours: this cluster's processes are readable to root


def measure(slurm: Slurm, runs: int, submissions: int, array: int) -> Iterator[Measured]:
    """Everything our own figures are held against, in the order of the issue."""
    yield time_srun(slurm, runs)
    yield time_sbatch(slurm, submissions)
    yield time_array(slurm, array)
    yield time_srun(slurm, runs, gres="shard:1")
    yield time_array(slurm, array, gres="shard:1")


def _line(tuning: Tuning, figure: Measured) -> str:
    return (
        f"{tuning.name.lower():8} {figure.name:16} n={len(figure.samples_seconds):<4} "
        f"median {figure.median_seconds:8.3f} s   total {figure.total_seconds:8.3f} s   {figure.command}"
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.slurm_peer", description=__doc__)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--runs", type=int, default=30, help="how many srun")
    parser.add_argument("--submissions", type=int, default=100, help="how many sbatch")
    parser.add_argument("--array", type=int, default=1000, help="jobs in the array")
    parser.add_argument("--tuning", choices=[t.name.lower() for t in Tuning], action="append")
    asked = parser.parse_args(arguments)
    for name in asked.tuning or ["default", "fast"]:
        with tempfile.TemporaryDirectory(prefix="slurm-peer-") as workdir:
            try:
                with slurm_cluster(Path(workdir), asked.gpus, tuning=Tuning[name.upper()]) as slurm:
                    for figure in measure(slurm, asked.runs, asked.submissions, asked.array):
                        print(_line(slurm.tuning, figure), flush=True)
            except PeerMissingError as missing:
                print(f"--       {missing}", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
