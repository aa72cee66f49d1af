"""Kills of everything that has to do with virtual machines, and the checks after each.

Killed with SIGKILL at random moments: QEMU, the supervisor, `qemu-img` and the program that writes
the seed, the command that deletes, the server and the agent; the server also at each named step of a
start and of an end. `run_vm_kills` raises `BrokenKills` with the seed and what did not hold.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from gpupool.agent.jobs.faults import VM_STEPS
from tests.faults import invariants
from tests.faults.pool import FaultPool, answer_of, kill, processes, until
from tests.hosts.disk_guest import write_image
from tests.hosts.vm_lives import Truth, VmLife, describe_failure

#: Steps of the agent at which the server is killed: of a start, then of an end.
STEPS = (
    *("checkpoint-written", "prepared", *VM_STEPS, "spec-written", "shim-started"),
    *("start-reported", "exit-seen", "unprepared", "end-acknowledged", "directory-finished"),
)
#: Parts of a hundred kills.
PARTS = {
    "qemu": 36,
    "supervisor": 16,
    "server": 12,
    "agent": 12,
    "step": 12,
    "tool": 8,
    "client": 4,
}
LIVES = 3
#: Programs that make a disk or a seed and end by themselves.
TOOLS = ("qemu-img", "genisoimage", "xorrisofs", "mkisofs")
#: Seconds for which a victim that lives for a moment is waited for.
WAIT_SECONDS = 20.0
PAUSE_SECONDS = 0.4
#: Seconds for the end of a life, which waits for the end of its virtual machine.
END_SECONDS = 600.0


class BrokenKills(AssertionError):
    """A promise did not hold."""


@dataclass
class KillCounts:
    """What a campaign did.

    Attributes:
        done: What the lives of virtual machines did and found.
    """

    kills: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def add(self, other: KillCounts) -> None:
        self.kills += other.kills
        writes = max(self.done["writes found"], other.done["writes found"])
        self.done += other.done
        self.done["writes found"] = writes
        self.seconds += other.seconds

    def __str__(self) -> str:
        kills = ", ".join(f"{count} {what}" for what, count in sorted(self.kills.items()))
        done = ", ".join(f"{count} {what}" for what, count in sorted(self.done.items()))
        return f"{self.kills.total()} kills ({kills}) in {self.seconds:.0f} s; {done}"


class VmKills:
    """One pool from its first start to its purge."""

    def __init__(self, directory: Path, seed: int, *, separate_agent: bool) -> None:
        image = directory / "image.raw"
        write_image(image)
        image.chmod(0o444)
        self.counts = KillCounts()
        self._seed = seed
        self._chance = random.Random(seed)
        self._pool = FaultPool(directory / "state", sim="4xL40S", separate_agent=separate_agent)
        self._truth = Truth()
        self._lives: list[VmLife] = []
        for number in range(LIVES):
            self._lives.append(VmLife(number, self._pool, image, self._truth, seed))

    def run(self, kills: int) -> KillCounts:
        started = time.monotonic()
        try:
            self._run(kills)
        except Exception as error:
            apart = "agent apart" if self._pool.separate_agent else "agent inside"
            what = f"seed {self._seed}, {apart}, {self.counts}: {error}"
            raise BrokenKills(f"{self._pool.log_tail()}\n---\n{what}") from error
        finally:
            self.counts.seconds = time.monotonic() - started
            self.counts.done = self._truth.done
            self._destroy()
        return self.counts

    def _run(self, kills: int) -> None:
        self._pool.up()
        for life in self._lives:
            life.start()
        for what in self._plan(kills):
            time.sleep(self._chance.uniform(0, PAUSE_SECONDS))  # the random moment
            self._kill(what)
            self._check()
        self._end()

    def _plan(self, kills: int) -> Sequence[str]:
        parts = dict(PARTS)
        if self._pool.separate_agent:
            # The steps are armed by the server's environment, and this server starts no job.
            parts["agent"] += parts.pop("step")
        else:
            parts["server"] += parts.pop("agent")
        counts = {what: kills * part // 100 for what, part in parts.items()}
        counts["qemu"] += kills - sum(counts.values())
        plan: list[str] = []
        for what, count in counts.items():
            plan += [what] * count
        self._chance.shuffle(plan)
        return plan

    def _kill(self, what: str) -> None:
        ways: dict[str, Callable[[], bool]] = {
            "qemu": self._kill_qemu,
            "supervisor": self._kill_supervisor,
            "tool": self._kill_tool,
            "client": self._kill_client,
            "server": self._pool.kill_server,
            "agent": self._pool.kill_agent,
        }
        if what == "step":
            self._kill_at_step()
            return
        try:
            until(lambda: ways[what]() or self._revive(), f"a {what} to kill", WAIT_SECONDS)
        except AssertionError:
            # None came into being meanwhile: every plan has as many kills as were asked for.
            what = "qemu"
            until(lambda: self._kill_qemu() or self._revive(), "a qemu to kill")
        self.counts.kills[what] += 1

    def _kill_at_step(self) -> None:
        """Kill the server when it comes to a step; it may come to it while it starts."""
        step = self._chance.choice(STEPS)
        self._pool.kill_server()
        try:
            self._pool.up(GPUPOOL_FAULT=step, GPUPOOL_FAULTS_ALLOWED="1")
            until(lambda: self._pool.server_pid() is None, step, WAIT_SECONDS)
        except AssertionError:
            if self._pool.server_pid() is not None:
                self._pool.kill_server()
                self.counts.kills["server"] += 1
                return
        self.counts.kills[f"server at {step}"] += 1

    def _kill_qemu(self) -> bool:
        found = list_qemus(self._pool)
        if not found:
            return False
        pid, job = self._chance.choice(found)
        self._truth.killed.add(job)
        return kill(pid)

    def _kill_supervisor(self) -> bool:
        found = [one for one in self._pool.supervisors() if one.job.startswith("j-")]
        if not found:
            return False
        victim = self._chance.choice(found)
        self._truth.killed.add(victim.job)
        return kill(victim.pid)

    def _kill_tool(self) -> bool:
        vms = str(self._pool.paths.vms)
        for pid in processes():
            words = read_words(pid)
            # The checks of this campaign run `qemu-img` as well.
            if Path(words[0]).name not in TOOLS or read_parent(pid) == os.getpid():
                continue
            for word in words:
                if word.startswith(f"{vms}/"):
                    self._truth.killed.add(word.removeprefix(f"{vms}/").split("/")[0])
                    return kill(pid)
        return False

    def _kill_client(self) -> bool:
        for life in self._lives:
            client = life.client
            if client is not None and client.poll() is None:
                return kill(client.pid)
        return False

    def _revive(self) -> bool:
        """Start what does not run. False, for `until`."""
        self._demand_lives()
        if self._pool.server_pid() is None or not self._pool.agent_runs():
            self._pool.up()
        return False

    def _check(self) -> None:
        self._revive()
        _demand(invariants.books(self._pool))
        until(lambda: not self._find_missing(), f"the disks of {self._find_missing()}", 10)
        until(lambda: not self._find_doubles(), f"one QEMU for {self._find_doubles()}", 10)
        self._demand_lives()

    def _demand_lives(self) -> None:
        _demand([text for text in map(describe_failure, self._lives) if text])

    def _find_missing(self) -> list[str]:
        """The lives whose disk is nowhere below the directory of virtual machines."""
        wanted = {life.inode: life.name for life in self._lives if life.inode is not None}
        found = {disk.stat().st_ino for disk in self._pool.paths.vms.glob("*/run/disk.qcow2")}
        missing = [name for inode, name in wanted.items() if inode not in found]
        still = {life.inode for life in self._lives}
        return missing if set(wanted) <= still else []

    def _find_doubles(self) -> list[str]:
        identities = Counter(find_identity(pid) for pid, _ in list_qemus(self._pool))
        return [identity for identity, count in identities.items() if identity and count > 1]

    def _end(self) -> None:
        for life in self._lives:
            life.finish()
        for life in self._lives:
            life.join(END_SECONDS)
            _demand([f"{life.name} did not end"] if life.is_alive() else [])
        self._demand_lives()
        until(lambda: not invariants.node_leftovers(self._pool), "the node being clean")
        until(lambda: not list_qemus(self._pool), "the end of every QEMU")
        # What a killed command left is removed when an agent begins.
        self._pool.kill_server()
        self._pool.kill_agent()
        self._pool.up()
        left = partial(list_files, self._pool.paths.vms)
        until(lambda: not left(), f"no file of a virtual machine: {left()}")
        with self._pool.api() as api:
            report = answer_of(api, "GET", "report", query={"since": "7d"})
        _demand([
            *invariants.books(self._pool),
            *invariants.report_closes(report),
            *invariants.report_matches_intervals(self._pool, report),
            *invariants.node_leftovers(self._pool),
        ])  # fmt: skip
        self._pool.down()
        _demand([str(path) for path in (self._pool.paths.root,) if path.exists()])

    def _destroy(self) -> None:
        for life in self._lives:
            life.finish()
        self._pool.destroy()
        for pid, _ in list_qemus(self._pool):
            kill(pid)


def list_qemus(pool: FaultPool) -> list[tuple[int, str]]:
    """The QEMUs that run in a directory of this pool, with their jobs."""
    found: list[tuple[int, str]] = []
    for pid in processes():
        try:
            program = Path(f"/proc/{pid}/exe").readlink().name
            directory = Path(f"/proc/{pid}/cwd").readlink()
        except OSError:
            continue
        if program.startswith("qemu-system") and directory.is_relative_to(pool.paths.vms):
            found.append((pid, directory.relative_to(pool.paths.vms).parts[0]))
    return found


def find_identity(pid: int) -> str:
    """The UUID of a QEMU's guest; empty where it has ended."""
    words = read_words(pid)
    return words[words.index("-uuid") + 1] if "-uuid" in words else ""


def read_words(pid: int) -> list[str]:
    """The command of a process; one empty word where it has ended."""
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return [""]
    return raw.decode(errors="replace").rstrip("\0").split("\0")


def read_parent(pid: int) -> int:
    """The parent of a process; 0 where it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(text.rpartition(")")[2].split()[1])


def list_files(root: Path) -> list[str]:
    """Everything below a directory, which may be missing."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def run_vm_kills(directory: Path, seed: int, kills: int, *, separate_agent: bool) -> KillCounts:
    """Kill so many times by this seed, and check everything. Raises BrokenKills.

    The directory is removed unless something broke.
    """
    counts = VmKills(directory, seed, separate_agent=separate_agent).run(kills)
    shutil.rmtree(directory)
    return counts


def _demand(wrong: Sequence[str]) -> None:
    if wrong:
        raise AssertionError("\n".join([f"{len(wrong)} promises broken:", *wrong[:30]]))
