"""What always holds of arrays, whatever is submitted, started, stopped and killed, in any order."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import sqlalchemy as sa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gpupool.allocations.store.tables import arrays, jobs
from gpupool.base.errors import WrongState
from gpupool.model.job import ENDED
from tests.support.house import House
from tests.support.properties import whole_pools

NAMES = ("red", "blue")


class Arrays(RuleBasedStateMachine):
    """Two cards and arrays of whole cards."""

    @initialize()
    def build(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.house = House(Path(self.directory.name), cards=2)
        self.sizes: dict[str, int] = {}
        self.placed: Counter[str] = Counter()

    def teardown(self) -> None:
        if hasattr(self, "house"):
            self.house.close()
            self.directory.cleanup()

    @rule(size=st.integers(1, 12), requeue=st.booleans())
    def submit(self, size: int, requeue: bool) -> None:
        name = f"a{len(self.sizes)}"
        self.house.submit(1000, None, name=name, array=size, requeue=requeue)
        self.sizes[name] = size

    @rule(data=st.data(), how=st.sampled_from(["done", "failed", "not_started", "lost"]))
    def end_one(self, data: st.DataObject, how: str) -> None:
        work = self.house.work()
        if not work:
            return
        item = data.draw(st.sampled_from(work))
        self.house.report(item, "running", started_ns=5)
        ended = {"done": {"exit_code": 0}, "failed": {"exit_code": 1}}
        self.house.report(item, "ended" if how in ended else how, **ended.get(how, {}))
        self.house.allocations.placer.run_cycle()

    @rule(data=st.data())
    def stop_member(self, data: st.DataObject) -> None:
        if self.sizes:
            name = data.draw(st.sampled_from(sorted(self.sizes)))
            self._stop(f"{name}.{data.draw(st.integers(0, self.sizes[name] - 1))}")

    @rule(data=st.data())
    def stop_array(self, data: st.DataObject) -> None:
        if self.sizes:
            self._stop(data.draw(st.sampled_from(sorted(self.sizes))))

    def _stop(self, name: str) -> None:
        try:
            self.house.allocations.jobs.stop_job(name, self.house.admin, 0)
        except WrongState:
            return

    @rule()
    def place(self) -> None:
        self.house.allocations.placer.run_cycle()

    @rule()
    def restart(self) -> None:
        self.house.restart()

    @invariant()
    def every_member_is_one_job_at_most_and_every_member_is_counted_once(self) -> None:
        if not hasattr(self, "house"):
            return
        with self.house.store.read() as connection:
            rows = connection.execute(sa.select(arrays)).all()
            members = connection.execute(
                sa.select(jobs.c.array_id, jobs.c.array_index, jobs.c.state)
            ).all()
        for row in rows:
            mine = [member for member in members if member.array_id == row.id]
            indices = {member.array_index for member in mine}
            states = Counter(member.state for member in mine)
            assert len(indices) == len(mine) == row.made
            assert indices >= set(range(row.next_index))
            assert indices <= set(range(row.size))
            assert {state: getattr(row, state) for state in ENDED} == {
                state: states[state] for state in ENDED
            }
            shown = self.house.allocations.jobs.get_array(row.public_id, self.house.admin)
            assert sum(shown.states.values()) == row.size == self.sizes[row.name]
            over = sum(states[state] for state in ENDED) == row.made and (
                row.made == row.size or row.stopped_ns
            )
            assert (row.launch is None) == bool(over)

    @invariant()
    def what_waits_in_memory_is_what_is_written(self) -> None:
        if not hasattr(self, "house"):
            return
        counts = self.house.count_jobs()
        assert self.house.allocations.cache.count_waiting() == counts["pending"]

    @invariant()
    def nothing_waits_beside_a_free_card(self) -> None:
        if not hasattr(self, "house"):
            return
        held = len(self.house.work())
        self.house.allocations.placer.run_cycle()
        waiting = self.house.allocations.cache.count_waiting()
        assert held == 2 or waiting == 0 or len(self.house.work()) == 2


Arrays.TestCase.settings = settings(whole_pools, max_examples=25, stateful_step_count=20)
TestArrays = Arrays.TestCase
