"""Runs a slow step of a mechanism in a process of its own, so that no thread of the agent blocks.

A reset of a card takes seconds, and a write to sysfs can hang in the kernel for ever. The caller
asks again until the process has ended. The process holds a lock on a file as long as it or a child
of it lives, and leaves its result in another file. So an agent that was killed finds the step
running, or finished, and never starts it twice at a time.

`python -m gpupool.mechanisms.slow_step FOLDER NAME COMMAND...` is that process.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpupool.base.durable import write_durably

if TYPE_CHECKING:
    from gpupool.mechanisms.contract import NotYet

#: Bytes of a step's output that are kept: its end, since that holds the error.
OUTPUT_BYTES = 4096
#: Exit code of a command that could not be run, as in sh(1).
NOT_RUN = 127
#: Seconds between two looks at a step that runs.
PAUSE_SECONDS = 0.5
#: Ends the name of the empty file that marks a step for which the agent closes the cards' driver.
RELEASE = "released"
#: Environment variable with the descriptor of the lock that the process inherits.
_LOCK_VARIABLE = "GPUPOOL_STEP_LOCK"


@dataclass(frozen=True)
class StepResult:
    """How a step ended. `exit_code` is negative where a signal ended it."""

    exit_code: int
    output: str


def run_slow_step(
    folder: Path, name: str, arguments: Sequence[str], reason: str
) -> StepResult | NotYet:
    """Start a step unless it runs already, or return how it ended. Idempotent; does not block.

    Args:
        folder: the allocation's directory, which exists.
        name: unique within the folder; a plain file name.
        arguments: the command; it must be safe to repeat after a power cut.
        reason: what it does, for people.
    """
    # Not at the top: the process of a step starts through this module and needs no contract.
    from gpupool.mechanisms.contract import NotYet

    result = _read_result(folder, name)
    if result is not None:
        return result
    lock = _open_lock(folder, name)
    try:
        if not _try_lock(lock):
            return NotYet(reason, PAUSE_SECONDS)
        result = _read_result(folder, name)
        if result is not None:
            return result
        command = [sys.executable, "-m", "gpupool.mechanisms.slow_step", str(folder), name]
        # The process gets the lock with its birth. If it took the lock itself, each call until then
        # would start one more, and a busy machine never gets to the first.
        subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=(lock,),
            env={**os.environ, _LOCK_VARIABLE: str(lock)},
        )
    finally:
        os.close(lock)
    return NotYet(reason, PAUSE_SECONDS)


def forget_slow_step(folder: Path, name: str) -> None:
    """Remove the result of a step, so that the next call starts it anew. Idempotent."""
    _locate(folder, name, "result").unlink(missing_ok=True)
    _locate(folder, name, "lock").unlink(missing_ok=True)
    _locate(folder, name, RELEASE).unlink(missing_ok=True)


def await_slow_step(folder: Path, name: str) -> None:
    """Block until no process runs the step. Returns at once where none does."""
    try:
        descriptor = os.open(_locate(folder, name, "lock"), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    finally:
        os.close(descriptor)


def mark_released(folder: Path, name: str) -> None:
    """Write down that a step needs the cards' driver closed by the agent; until it is forgotten."""
    write_durably(_locate(folder, name, RELEASE), b"", mode=0o600)


def list_released(folder: Path) -> list[str]:
    """List the steps of a folder that need the cards' driver closed, running or not."""
    names = [path.name for path in folder.glob(f"step-*.{RELEASE}")]
    return sorted(name.removeprefix("step-").removesuffix(f".{RELEASE}") for name in names)


def _locate(folder: Path, name: str, kind: str) -> Path:
    return folder / f"step-{name}.{kind}"


def _read_result(folder: Path, name: str) -> StepResult | None:
    try:
        document = json.loads(_locate(folder, name, "result").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return StepResult(document["exit_code"], document["output"])


def has_step_result(folder: Path, name: str) -> bool:
    """Whether a step has ended and its result was not forgotten."""
    return _locate(folder, name, "result").exists()


def is_step_running(folder: Path, name: str) -> bool:
    """Whether a process of a step, or a child of it, lives now."""
    try:
        descriptor = os.open(_locate(folder, name, "lock"), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # Shared: two looks at the same moment must not take each other for the step.
        return not _try_lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _open_lock(folder: Path, name: str) -> int:
    path = _locate(folder, name, "lock")
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _try_lock(descriptor: int, kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def main(arguments: Sequence[str]) -> int:
    """Run a command under the lock of its step and write its result.

    Does nothing where another process runs the step or has finished it.
    """
    folder = Path(arguments[0])
    name = arguments[1]
    inherited = os.environ.pop(_LOCK_VARIABLE, None)
    lock = _open_lock(folder, name) if inherited is None else int(inherited)
    if not _try_lock(lock) or _read_result(folder, name) is not None:
        return 0
    result = _run_command(arguments[2:], lock)
    document = json.dumps({"exit_code": result.exit_code, "output": result.output})
    write_durably(_locate(folder, name, "result"), document.encode(), mode=0o600)
    return 0


def _run_command(command: Sequence[str], lock: int) -> StepResult:
    # The command inherits the lock: it counts as running also after this process was killed.
    try:
        done = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(lock,),
            check=False,
        )
    except (FileNotFoundError, PermissionError) as error:
        # A program that is not installed, as a shell tells it; without a result the step would be
        # started for ever. Where the machine is short of something it is tried again.
        return StepResult(NOT_RUN, f"{command[0]}: {error.strerror}\n")
    return StepResult(done.returncode, done.stdout[-OUTPUT_BYTES:].decode(errors="replace"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
