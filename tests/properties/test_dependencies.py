"""Jobs that wait for each other: whatever ends come, and wherever the server dies, every job ends
as its rule says, and none waits for ever."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from gpupool.store.tables import events
from tests.support.house import House
from tests.support.killed import killed_at
from tests.support.properties import whole_pools

#: Jobs with the earlier jobs that each waits for, and its exit code.
Graph = list[tuple[list[tuple[int, str]], int]]
CONDITIONS = ("ok", "any", "fail")
few = settings(whole_pools, max_examples=6)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Jobs with the earlier jobs that they wait for, and the exit code of each."""
    jobs: Graph = []
    for number in range(draw(st.integers(2, 7))):
        earlier = (
            draw(st.lists(st.integers(0, number - 1), max_size=3, unique=True)) if number else []
        )
        after = [(one, draw(st.sampled_from(CONDITIONS))) for one in earlier]
        jobs.append((after, draw(st.sampled_from((0, 0, 1)))))
    return jobs


def decide(jobs: Graph) -> list[str]:
    """Decide the last state of each job by the rule alone."""
    states = list[str]()
    for after, exit_code in jobs:
        is_met = all(
            condition == "any" or (states[one] == "done") == (condition == "ok")
            for one, condition in after
        )
        states.append(("failed" if exit_code else "done") if is_met else "stopped")
    return states


class Rounds:
    """One house for all rounds; the jobs of each round have names of their own."""

    def __init__(self, directory: Path) -> None:
        self.house = House(directory)
        self.number = 0

    def submit(self, jobs: Graph) -> None:
        self.number += 1
        for number, (after, _) in enumerate(jobs):
            ends = [{"job": self.name(one), "condition": condition} for one, condition in after]
            self.house.submit(100, 1, name=self.name(number), after=ends)

    def name(self, number: int) -> str:
        return f"round-{self.number}-{number}"

    def finish_all(self, jobs: Graph) -> None:
        """Let what is placed end, as long as anything is placed."""
        while True:
            while self.house.allocations.placer.run_cycle().more:
                pass
            work = self.house.work()
            if not work:
                return
            for item in work:
                number = int(self.house.job(item.job).name.rpartition("-")[2])
                self.house.report(item, "ended", exit_code=jobs[number][1])

    def read_states(self, jobs: Graph) -> list[str]:
        return [self.house.job(self.name(number)).state for number in range(len(jobs))]

    def count_ends(self) -> list[str]:
        """List the names of the jobs of this round, once for each end in the log."""
        with self.house.store.read() as connection:
            ended = sa.select(events.c.data).where(events.c.kind == "job.ended")
            names = [data["name"] for data in connection.execute(ended).scalars()]
        return sorted(name for name in names if name.startswith(f"round-{self.number}-"))


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rounds]:
    made = Rounds(tmp_path_factory.mktemp("house"))
    yield made
    made.house.close()


@few
@given(jobs=graphs())
def test_every_job_ends_as_its_rule_says(rounds: Rounds, jobs: Graph) -> None:
    rounds.submit(jobs)
    rounds.finish_all(jobs)
    assert rounds.read_states(jobs) == decide(jobs)


@few
@given(jobs=graphs(), number=st.integers(1, 40))
def test_a_death_at_any_step_decides_each_dependency_once(
    rounds: Rounds, jobs: Graph, number: int
) -> None:
    rounds.submit(jobs)
    with killed_at(rounds.house, number):
        rounds.finish_all(jobs)
    rounds.finish_all(jobs)
    assert rounds.read_states(jobs) == decide(jobs)
    assert rounds.count_ends() == [rounds.name(number) for number in range(len(jobs))]
