"""Kills of everything that carries networks, and the proof after each that tenants stay apart.

Killed with SIGKILL at random moments, one to three at once: the server, the agent, northd, the
controller, the three databases and the switch; jobs come and go meanwhile. `run_isolation_kills`
raises `BrokenIsolation` with the seed and what did not hold.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gpupool.agent.network.verification.probe_frames import FORGED, HONEST
from tests.faults.pool import until
from tests.hosts.isolation_pool import (
    DAEMONS,
    LONG_SECONDS,
    MEMBERS,
    IsolationPool,
    await_answer,
    find_rows,
)
from tests.hosts.isolation_watch import FrameCounts, IsolationWatch

#: What is killed. While the switch is away packets are lost; no other victim may cost one.
VICTIMS: Final = ("server", "agent", *DAEMONS)
SWITCH: Final = "switch"
#: But the switch's database where it is killed again: the switch then connects to it after 2, 4 and 8
#: seconds, not after 1, and the queues do not hold what comes meanwhile (decision 0087).
DATABASE: Final = "switch database"
#: Seconds until a kill of it is like the first one.
AGAIN_SECONDS: Final = 16.0
#: How often so many victims are killed at once.
AT_ONCE: Final = (1, 1, 1, 2, 3)
#: Seconds until the first kill of a round, and between two of it.
PAUSE_SECONDS: Final = 0.5
#: Seconds until addresses are sound after everything is back.
SOUND_SECONDS: Final = 30.0
#: Probes until one has every frame that it sent within the networks.
MOST_PROBES: Final = 3
#: Seconds until a probe finds isolation that was broken by hand.
CONTROL_SECONDS: Final = 30.0


@dataclass
class IsolationCounts:
    """What a campaign did and found.

    Attributes:
        jobs: that came to networks and left them meanwhile.
        late_jobs: those of them that the engine did not serve in time, which their agents ended.
        controls: kinds of frames that arrived in the control runs, in which they had to.
        lost: pulses between neighbours that did not arrive in rounds in which the switch was neither
            killed nor kept waiting for a database that was killed again.
        outage_seconds: longest time without a pulse in those rounds, and in the others.
        back_seconds: longest time from the last kill until everything was in force.
        left: what was left after networking was disabled.
    """

    tenants: int = 0
    rounds: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    frames: FrameCounts = field(default_factory=FrameCounts)
    controls: Counter[str] = field(default_factory=Counter)
    jobs: int = 0
    late_jobs: int = 0
    faults: list[str] = field(default_factory=list)
    lost: int = 0
    outage_seconds: float = 0.0
    switch_outage_seconds: float = 0.0
    back_seconds: float = 0.0
    left: list[str] = field(default_factory=list)

    def add(self, other: IsolationCounts) -> None:
        self.rounds += other.rounds
        self.kills += other.kills
        self.frames.add(other.frames)
        self.controls += other.controls
        self.jobs += other.jobs
        self.late_jobs += other.late_jobs
        self.faults += other.faults
        self.lost += other.lost
        self.outage_seconds = max(self.outage_seconds, other.outage_seconds)
        switch_seconds = max(self.switch_outage_seconds, other.switch_outage_seconds)
        self.switch_outage_seconds = switch_seconds
        self.back_seconds = max(self.back_seconds, other.back_seconds)
        self.left += other.left

    def __str__(self) -> str:
        kills = ", ".join(f"{count} {what}" for what, count in sorted(self.kills.items()))
        return (
            f"{self.rounds} rounds with {self.tenants} tenants, {self.kills.total()} kills ({kills}), "
            f"{self.frames.sent.total()} frames to other tenants, {self.frames.leaks.total()} leaks, "
            f"{self.frames.inside.total()} inside, {self.jobs} jobs came and went "
            f"({self.late_jobs} not served in time), {self.lost} pulses lost, "
            f"back after {self.back_seconds:.1f} s at most"
        )


class BrokenIsolation(AssertionError):
    """A promise did not hold; `counts` has what was done until then."""

    def __init__(self, text: str, counts: IsolationCounts) -> None:
        super().__init__(text)
        self.counts = counts


class IsolationKills:
    """One pool from its first start to its purge."""

    def __init__(self, directory: Path, seed: int, tenants: int, report: Callable[[str], None]):
        self._seed = seed
        self._chance = random.Random(seed)
        self._made = IsolationPool(directory, tenants)
        self._report = report
        self._visitors = dict[str, str]()
        self._database_until = 0.0
        self.counts = IsolationCounts(tenants)

    def run(self, rounds: int) -> IsolationCounts:
        try:
            self._run(rounds)
        except Exception as error:
            what = f"seed {self._seed}, {self.counts}: {error}"
            text = f"{self._made.pool.log_tail()}\n---\n{what}"
            raise BrokenIsolation(text, self.counts) from error
        finally:
            self._made.destroy()
        return self.counts

    def _run(self, rounds: int) -> None:
        self._made.make()
        before = self._list_members()
        with IsolationWatch(self._made.list_stations(), self._seed) as watch:
            self._watch = watch
            self._probe()
            self._report(f"made: {self.counts}")
            for _ in range(rounds):
                self._kill_some()
                if self._list_members() != before:
                    self.counts.faults.append("a job that stayed has another address")
                self.counts.rounds += 1
                self._demand()
                self._report(str(self.counts))
            self._prove_that_probes_can_fail()
        self.counts.left = self._made.end()
        self._demand()

    def _list_members(self) -> list[tuple[str, ...]]:
        ports = [port for port in self._made.list_ports() if port.job_name in MEMBERS]
        return [(port.tenant, port.job_name, port.address, port.mac) for port in ports]

    def _kill_some(self) -> None:
        """Kill one to three victims in a storm of frames while jobs come and go, and check all."""
        victims = self._chance.sample(VICTIMS, self._chance.choice(AT_ONCE))
        tenant = self._chance.choice(self._made.tenants)
        may_lose = SWITCH in victims or (
            DATABASE in victims and time.monotonic() < self._database_until
        )
        self._watch.begin_storm()
        with ThreadPoolExecutor(1) as mover:
            moving = mover.submit(self._move_visitor, tenant)
            killed = dict[str, int]()
            for victim in victims:
                time.sleep(self._chance.uniform(0, PAUSE_SECONDS))  # the random moment
                killed[victim] = self._kill(victim)
            begin = time.monotonic()
            self._made.pool.up()
            moving.result()
        self._await_return(killed)
        self.counts.back_seconds = max(self.counts.back_seconds, time.monotonic() - begin)
        self._await_addresses()
        self._probe()
        pulses = self._watch.take_pulses()
        if may_lose:
            longest = max(self.counts.switch_outage_seconds, pulses.longest_seconds)
            self.counts.switch_outage_seconds = longest
            return
        self.counts.outage_seconds = max(self.counts.outage_seconds, pulses.longest_seconds)
        if pulses.lost:
            self.counts.lost += sum(pulses.lost.values())
            self._report(f"pulses lost after kills of {victims}: {dict(pulses.lost)}")

    def _await_addresses(self) -> None:
        """Wait until what a killed agent left is removed; what is wrong then is a fault."""
        try:
            look = self._made.find_faults
            await_answer(lambda: not look(), "sound addresses", SOUND_SECONDS)
        except AssertionError:
            self.counts.faults += self._made.find_faults()

    def _kill(self, victim: str) -> int:
        """Kill a victim that runs; returns its process."""
        if victim == "server":
            pid = self._made.pool.server_pid() or 0
            until(self._made.pool.kill_server, "a server to kill")
        elif victim == "agent":
            pid = self._made.pool.agent_pid() or 0
            until(self._made.pool.kill_agent, "an agent to kill")
        else:
            until(lambda: victim in self._made.find_daemons(), f"a {victim} to kill")
            pid = self._made.find_daemons()[victim]
            os.kill(pid, signal.SIGKILL)
        if victim == DATABASE:
            self._database_until = time.monotonic() + AGAIN_SECONDS
        self.counts.kills[victim] += 1
        return pid

    def _await_return(self, killed: Mapping[str, int]) -> None:
        """Wait until all that was killed is back and in force."""
        try:
            await_answer(lambda: not self._made.find_gap(killed), "the return of what was killed")
        except AssertionError as error:
            gap = self._made.find_gap(killed)
            raise AssertionError(f"{list(killed)} are not back: {gap}") from error

    def _move_visitor(self, tenant: str) -> None:
        """End the job that came to a tenant's network, and let another one come."""
        last = self._visitors.pop(tenant, None)
        if last is not None:
            self._made.stop(last)
        self.counts.jobs += 1
        job = self._made.submit(tenant, f"visitor-{self.counts.jobs}")
        self._visitors[tenant] = job
        await_answer(lambda: self._has_settled(job, last), f"{job} in its network")
        if not self._made.find_jobs(job, "running"):
            # Its port was not in force within the time that a start has: its agent ended it.
            self.counts.late_jobs += 1
            del self._visitors[tenant]

    def _has_settled(self, job: str, last: str | None) -> bool:
        """Whether a job has its address, or has none because it has ended; and the last one none."""
        present = {port.job for port in self._made.list_ports()}
        if last in present:
            return False
        if self._made.find_jobs(job, "running"):
            return job in present
        return bool(self._made.find_jobs(job, "failed")) and job not in present

    def _probe(self) -> None:
        """Probe; again where frames within a network are missing, as such a probe proves nothing.

        Every leak of every probe counts. Lost packets are what the storm's pulses count.
        """
        wanted = sum(self._watch.count_honest(tenant) for tenant in self._made.tenants)
        for _ in range(MOST_PROBES):
            found = self._watch.probe(LONG_SECONDS)
            self.counts.frames.add(found)
            if found.inside.total() == wanted and set(found.inside) == set(HONEST):
                return
        self.counts.faults.append(f"{dict(found.inside)} of {wanted} frames inside arrived")

    def _demand(self) -> None:
        wrong = [*self.counts.frames.leaks, *self.counts.faults, *self.counts.left]
        if wrong:
            raise AssertionError("\n".join([f"{len(wrong)} promises broken:", *wrong[:30]]))

    # The probe itself ------------------------------------------------------------------------------

    def _prove_that_probes_can_fail(self) -> None:
        """Break isolation by hand while no server repairs it: the same probe finds it.

        Raises AssertionError where it does not, and where the next server does not repair it.
        """
        first, second = self._made.tenants[:2]
        self._made.pool.kill_server()
        sender = self._made.find_switch_port(first, MEMBERS[0])
        self._change("clear", "Logical_Switch_Port", sender, "port_security")
        self._await_leaks(first, {f"{kind} of {first} at its neighbour": kind for kind in FORGED})

        moved = self._made.find_switch_port(second, MEMBERS[1])
        ports = {port.tenant: port for port in self._made.list_ports()}
        switches = {name: f"gpupool-{self._find_subnet(ports[name].subnet)}" for name in ports}
        rows = find_rows(self._made, {moved, *switches.values()})
        old, new = rows[switches[second]], rows[switches[first]]
        remove = ("remove", "Logical_Switch", old, "ports", rows[moved])
        self._change(*remove, "--", "add", "Logical_Switch", new, "ports", rows[moved])
        honest = {f"{kind} of {first} at {second}": f"{kind} between tenants" for kind in HONEST}
        self._await_leaks(first, honest)

        self._made.pool.up()
        await_answer(self._made.is_in_force, "repaired networks")
        # As above: the switch has the last flow of the repair somewhat later.
        probe = self._watch.probe
        await_answer(lambda: not probe(LONG_SECONDS).leaks, "repaired flows", CONTROL_SECONDS)
        self._probe()
        self._watch.take_pulses()
        self._demand()

    def _change(self, *words: str) -> None:
        done = self._made.northbound("--timeout=20", "--wait=hv", *words)
        assert done.returncode == 0, f"ovn-nbctl {words}: {done.stderr}"

    def _await_leaks(self, tenant: str, wanted: Mapping[str, str]) -> None:
        """Probe until each of these leaks is found; they count in the controls by their names.

        The engine says that a change is in force before the switch has the last flow of it.
        """
        missing = dict(wanted)

        def probe() -> bool:
            found = self._watch.probe(LONG_SECONDS, [tenant])
            for leak in missing.keys() & found.leaks.keys():
                self.counts.controls[missing.pop(leak)] += found.leaks[leak]
            return not missing

        await_answer(probe, f"a probe that finds {list(wanted)}", CONTROL_SECONDS)

    def _find_subnet(self, row_id: int) -> str:
        (row,) = self._made.pool.rows("SELECT public_id FROM subnets WHERE id = ?", row_id)
        return str(row["public_id"])


def run_isolation_kills(
    directory: Path, seed: int, rounds: int, tenants: int, report: Callable[[str], None] = print
) -> IsolationCounts:
    """Kill in so many rounds by this seed, and check everything. Raises BrokenIsolation.

    The directory is removed unless something broke.
    """
    counts = IsolationKills(directory, seed, tenants, report).run(rounds)
    shutil.rmtree(directory)
    return counts
