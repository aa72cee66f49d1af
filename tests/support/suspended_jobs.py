"""A job of two programs on a simulated card, suspended and resumed by steps that are killed.

The steps are the agent's own (`gpupool.agent.suspension.step`), each in a forked process. A kill is
SIGKILL at a line of the step, counted over all modules that a suspend runs through, or at a moment.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Self

from gpupool.agent.suspension.job_tree import JobTree
from gpupool.agent.suspension.step import RESUME, SUSPEND, main, read_outcome
from gpupool.mechanisms.suspend import MoveOutcome
from gpupool.probes.simgpu import SimulatedMachine, create_machine
from gpupool.probes.simulated import parse_sim
from gpupool_native import simgpu_dir

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
#: Modules whose lines are counted.
_COUNTED = ("gpupool/agent/suspension/", "gpupool/mechanisms/suspend/", "gpupool/base/durable")

#: Holds memory with contents of its own, and answers each line with whether they are as they were.
PROGRAM = """
import sys
from tests.unit.native.simgpu_cuda import Cuda
cu = Cuda()
cu.start()
size = int(sys.argv[1])
held = cu.alloc(size)
contents = (sys.argv[2] * 4096)[:4096].encode()
cu.write(held, contents)
cu.write(held + size - 4096, contents)
print("ready", flush=True)
for line in sys.stdin:
    intact = cu.read(held, 4096) == contents == cu.read(held + size - 4096, 4096)
    print("intact" if intact else "lost", flush=True)
"""


class SuspendedJob:
    """The job, its card and the folder of its notes. Ended by its `with` block."""

    def __init__(self, folder: Path, mebibytes: int = 64, programs: int = 2) -> None:
        self.folder = folder / "allocation"
        self.folder.mkdir()
        self.machine = folder / "machine"
        create_machine(self.machine, parse_sim("1xT4")[0])
        self.programs = programs
        pipes = [(os.pipe(), os.pipe()) for _ in range(programs)]
        command = ""
        inherited: list[int] = []
        for at, ((inner_in, _), (_, inner_out)) in enumerate(pipes):
            inherited += [inner_in, inner_out]
            words = f"{sys.executable} -c '{PROGRAM}' {mebibytes * MIB} contents-{at}-"
            command += f"{words} <&{inner_in} >&{inner_out} & "
        self.process = subprocess.Popen(
            ["bash", "-c", command + "wait"],
            env={**_clean_environment(), "GPUPOOL_SIMGPU": str(self.machine)},
            pass_fds=inherited,
        )
        self._inputs = []
        self._outputs = []
        for (inner_in, outer_in), (outer_out, inner_out) in pipes:
            os.close(inner_in)
            os.close(inner_out)
            self._inputs.append(os.fdopen(outer_in, "w"))
            self._outputs.append(os.fdopen(outer_out))

    def __enter__(self) -> Self:
        for output in self._outputs:
            assert output.readline() == "ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        tree = JobTree(self.process.pid, lambda _: None)
        for process in tree.list_all():
            os.kill(process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        for stream in (*self._inputs, *self._outputs):
            stream.close()

    def are_contents_intact(self) -> bool:
        """Ask every program; only while they run."""
        for stream in self._inputs:
            stream.write("check\n")
            stream.flush()
        return [output.readline() for output in self._outputs] == ["intact\n"] * self.programs

    def count_alive(self) -> int:
        return len(JobTree(self.process.pid, lambda _: None).list_all())

    def count_stopped(self) -> int:
        """Count the programs that are stopped."""
        stats = [
            Path(f"/proc/{process.pid}/stat").read_text()
            for process in JobTree(self.process.pid, lambda _: None).list_all()
        ]
        return sum(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)

    def read_used(self) -> int:
        """Return the bytes that processes use on the card."""
        with SimulatedMachine(self.machine) as cards:
            return sum(use.memory_bytes for use in cards.list_processes(cards.cards[0].uuid))

    def build_arguments(self, goal: str) -> list[str]:
        library = simgpu_dir() / "libcuda.so.1"
        return [goal, str(self.folder), str(self.process.pid), str(library), str(self.machine)]

    def move(self, goal: str) -> MoveOutcome:
        """Run a step to its end; what it printed."""
        reader, writer = os.pipe()
        pid = _fork_step(self.build_arguments(goal), writer)
        os.close(writer)
        with os.fdopen(reader) as output:
            text = output.read()
        _, status = os.waitpid(pid, 0)
        outcome = read_outcome(text)
        assert outcome is not None, (status, text)
        return outcome

    def kill_at_line(self, goal: str, line: int) -> bool:
        """Kill a step at its n-th line; False where it ended before."""
        pid = _fork_step(self.build_arguments(goal), None, line)
        return os.WIFSIGNALED(os.waitpid(pid, 0)[1])

    def kill_after(self, goal: str, seconds: float) -> bool:
        """Kill a step after a time; False where it ended before."""
        pid = _fork_step(self.build_arguments(goal), None)
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
        return os.WIFSIGNALED(os.waitpid(pid, 0)[1])

    def count_lines(self, goal: str) -> int:
        """Run a step to its end and count its lines."""
        reader, writer = os.pipe()
        pid = _fork_step(self.build_arguments(goal), writer, -1)
        os.close(writer)
        with os.fdopen(reader) as output:
            lines = int(output.read().split()[-1])
        os.waitpid(pid, 0)
        return lines


@dataclass
class KillTally:
    """What became of a series of kills."""

    kills: int = 0
    #: Programs that ended, lost their contents, or whose memory is not counted exactly.
    lost: int = 0
    #: Steps after a kill that did not reach the goal.
    stuck: int = 0


def run_kills(job: SuspendedJob, kills: int, chance: random.Random) -> KillTally:
    """Kill steps one after the other; after each, a further step finishes, and all is checked."""
    lines = {goal: job.count_lines(goal) for goal in (SUSPEND, RESUME)}
    seconds = {}
    for goal in (SUSPEND, RESUME):
        began = time.monotonic()
        job.move(goal)
        seconds[goal] = time.monotonic() - began
    full = job.read_used()
    tally = KillTally()
    goal = SUSPEND
    while tally.kills < kills:
        if chance.random() < 0.5:
            killed = job.kill_at_line(goal, chance.randint(1, lines[goal]))
        else:
            killed = job.kill_after(goal, chance.random() * seconds[goal])
        tally.kills += killed
        # One time in four the opposite is wanted after the kill: a stop of the job, or a resume.
        wanted = goal if chance.random() < 0.75 else _reverse(goal)
        outcome = job.move(wanted)
        reached = "suspended" if wanted == SUSPEND else "running"
        tally.stuck += outcome.state != reached or bool(outcome.reason)
        tally.lost += job.count_alive() != job.programs
        tally.lost += job.read_used() != (0 if wanted == SUSPEND else full)
        if wanted == SUSPEND:
            tally.lost += job.count_stopped() != job.programs
        else:
            tally.lost += not job.are_contents_intact()
        goal = _reverse(wanted)
    return tally


def _reverse(goal: str) -> str:
    return RESUME if goal == SUSPEND else SUSPEND


def _fork_step(arguments: Sequence[str], output: int | None, kill_at: int = 0) -> int:
    """Run a step in a forked process; `kill_at` -1 counts its lines and prints the count."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    try:
        target = os.open(os.devnull, os.O_WRONLY) if output is None else output
        os.dup2(target, 1)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        seen = [0]
        if kill_at:
            sys.settrace(_make_tracer(seen, kill_at))
        main(arguments)
        sys.settrace(None)
        if kill_at < 0:
            print(seen[0], flush=True)
    finally:
        os._exit(0)


def _make_tracer(seen: list[int], kill_at: int) -> Any:
    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        if not any(part in frame.f_code.co_filename for part in _COUNTED):
            return None
        if event == "line":
            seen[0] += 1
            if seen[0] == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    return trace


def _clean_environment() -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("CUDA_", "GPUPOOL_"))
    }
    return kept | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder, SuspendedJob(Path(folder)) as job:
        tally = run_kills(job, int(sys.argv[1]), random.Random(1))
        print(json.dumps(tally.__dict__))
