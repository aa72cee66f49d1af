"""A dependency is decided with the end that it awaits, and what it rules out ends with it."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from gpupool.allocations.dependencies import settlement
from gpupool.allocations.store.dependency_table import IS_UNMET, dependencies
from gpupool.base.errors import BadDependency, BadOption, DependencyNeverMet, NotFound
from gpupool.wire.jobs import JobOut
from gpupool.wire.submissions import GroupIn, RoleIn
from tests.support.house import House


def after(*texts: str) -> list[dict[str, str]]:
    parts = [text.partition(":") for text in texts]
    return [{"job": job, "condition": condition or "ok"} for job, _, condition in parts]


def place(house: House) -> None:
    while house.allocations.placer.run_cycle().more:
        pass


def state(house: House, name: str) -> tuple[str, str]:
    job = house.job(name)
    return job.state, job.reason


@pytest.fixture
def prep(house: House) -> JobOut:
    job = house.submit(name="prep")
    place(house)
    return job


@pytest.mark.parametrize(
    ("condition", "exit_code", "starts"),
    [("ok", 0, True), ("ok", 3, False), ("any", 3, True), ("fail", 3, True), ("fail", 0, False)],
)
def test_the_end_of_a_job_starts_or_ends_what_waits_for_it(
    house: House, prep: JobOut, condition: str, exit_code: int, starts: bool
) -> None:
    waits = house.submit(name="train", after=after(f"prep:{condition}"))
    place(house)
    sentence = f"waits for job prep to end ({condition})"
    assert (waits.state, waits.reason) == ("pending", sentence)
    assert state(house, "train") == ("pending", sentence)
    assert house.allocations.jobs.explain_job("train", house.admin).sentence == sentence
    house.finish("prep", exit_code=exit_code)
    place(house)
    if starts:
        assert house.job("train").state == "starting"
        assert [end.outcome for end in house.job("train").after] == ["met"]
        return
    ending = "done" if exit_code == 0 else "failed (exit code 3)"
    reason = f"job prep ended {ending}; it waited for {condition}"
    assert state(house, "train") == ("stopped", reason)
    assert [(end.outcome, end.ending) for end in house.job("train").after] == [("never", ending)]


def test_a_job_waits_for_all_of_its_dependencies(house: House, prep: JobOut) -> None:
    house.submit(name="load")
    place(house)
    house.submit(name="train", after=after("prep", "load:any"))
    both = "waits for job prep to end (ok) and job load to end (any)"
    assert state(house, "train") == ("pending", both)
    house.finish("prep")
    assert state(house, "train") == ("pending", "waits for job load to end (any)")
    place(house)
    assert house.job("train").state == "pending"
    house.finish("load", exit_code=1)
    place(house)
    assert house.job("train").state == "starting"


def test_a_chain_ends_with_its_first_job(house: House, prep: JobOut) -> None:
    house.submit(name="b", after=after("prep"))
    house.submit(name="c", after=after("b"))
    house.submit(name="d", after=after("c:fail"))
    house.finish("prep", exit_code=1)
    place(house)
    assert state(house, "c")[0] == "stopped"
    assert state(house, "c")[1] == (
        "job b ended stopped (job prep ended failed (exit code 1); it waited for ok); "
        "it waited for ok"
    )
    assert house.job("d").state == "starting"


def test_a_longer_chain_than_one_transaction_ends_is_ended_by_the_next_cycle(
    house: House, prep: JobOut, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settlement, "ENDED_AT_ONCE", 2)
    for number in range(7):
        house.submit(name=f"fan-{number}", after=after("prep"))
    house.finish("prep", exit_code=1)
    assert house.count_jobs()["pending"] == 5
    house.restart()
    place(house)
    assert house.count_jobs()["pending"] == 0


def test_the_stop_of_a_waiting_job_decides_what_waits_for_it(house: House, prep: JobOut) -> None:
    house.submit(name="b", after=after("prep"))
    house.submit(name="c", after=after("b:fail"))
    house.allocations.jobs.stop_job("b", house.admin, None)
    place(house)
    assert house.job("c").state == "starting"


def test_a_dependency_survives_a_restart(house: House, prep: JobOut) -> None:
    house.submit(name="train", after=after("prep"))
    house.restart()
    place(house)
    assert state(house, "train") == ("pending", "waits for job prep to end (ok)")
    house.finish("prep")
    house.restart()
    place(house)
    assert house.job("train").state == "starting"


def test_an_array_waits_and_is_awaited_as_one(house: House, prep: JobOut) -> None:
    house.submit(100, 1, name="sweep", array=3, after=after("prep"))
    house.submit(name="sum", after=after("sweep"))
    house.submit(name="second", after=after("sweep.1:any"))
    place(house)
    assert house.count_jobs()["pending"] == 5
    assert house.allocations.jobs.get_array("sweep", house.admin).reason == (
        "waits for job prep to end (ok)"
    )
    house.finish("prep")
    place(house)
    assert house.count_jobs() == {"pending": 2, "starting": 3, "running": 0}
    house.finish("sweep.1")
    place(house)
    assert house.job("second").state == "starting"
    house.finish("sweep.0")
    assert house.job("sum").state == "pending"
    house.finish("sweep.2")
    place(house)
    assert house.job("sum").state == "starting"


def test_a_failed_member_rules_out_the_ok_of_its_array_at_once(house: House) -> None:
    house.submit(100, 1, name="sweep", array=3)
    place(house)
    house.submit(name="sum", after=after("sweep"))
    house.submit(name="mend", after=after("sweep:fail"))
    house.finish("sweep.0", exit_code=1)
    reason = "array sweep ended with 1 failed of 3; it waited for ok"
    assert state(house, "sum") == ("stopped", reason)
    assert house.job("mend").state == "pending"
    house.finish("sweep.1")
    house.finish("sweep.2")
    place(house)
    assert house.job("mend").state == "starting"


def test_the_stop_of_an_array_that_waits_decides_for_all_its_members(
    house: House, prep: JobOut
) -> None:
    house.submit(100, 1, name="sweep", array=3, after=after("prep"))
    house.submit(name="sum", after=after("sweep.2:any"))
    house.submit(name="mend", after=after("sweep:fail"))
    house.allocations.jobs.stop_job("sweep", house.admin, None)
    place(house)
    assert house.job("sum").state == "starting"
    assert house.job("mend").state == "starting"


def test_a_gang_waits_and_is_awaited_as_one(house: House, prep: JobOut) -> None:
    gang = GroupIn(name="all", parts=[RoleIn(name="worker", count=2)])
    house.submit(300, 8, name="train", gang=gang, after=after("prep"))
    house.submit(name="sum", after=after("train"))
    place(house)
    assert house.job("train.1").reason == "waits for job prep to end (ok)"
    house.finish("prep")
    place(house)
    assert house.job("train.1").state == "starting"
    house.finish("train.0")
    place(house)
    assert house.job("sum").state == "pending"
    house.finish("train.1")
    place(house)
    assert house.job("sum").state == "starting"


def test_a_gang_whose_dependency_fails_ends_whole(house: House, prep: JobOut) -> None:
    gang = GroupIn(name="all", parts=[RoleIn(name="a", count=2), RoleIn(name="b", count=1)])
    house.submit(300, 8, name="train", gang=gang, after=after("prep"))
    house.finish("prep", exit_code=1)
    assert {house.job(f"train.{n}").state for n in range(3)} == {"stopped"}


def test_an_end_before_the_submission_counts(house: House, prep: JobOut) -> None:
    house.finish("prep")
    assert house.submit(name="b", after=after("prep")).after[0].outcome == "met"
    with pytest.raises(DependencyNeverMet) as refusal:
        house.submit(name="c", after=after("prep:fail"))
    assert "job prep ended done" in refusal.value.message
    with pytest.raises(NotFound):
        house.job("c")


def test_an_end_while_the_submission_is_written_counts(
    house: House, prep: JobOut, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = house.allocations.jobs._writer
    create = writer.create_submission

    def end_first(*args: object, **options: object) -> object:
        house.finish("prep")
        return create(*args, **options)  # type: ignore[arg-type]

    house.submit(name="other", after=after("prep"))  # keeps a dependency open
    monkeypatch.setattr(writer, "create_submission", end_first)
    house.submit(name="train", after=after("prep"))
    place(house)
    assert house.job("train").state == "starting"


def test_the_job_of_another_tenant_is_not_found(house: House, prep: JobOut) -> None:
    house.tenancy.tenants.create(house.admin, "nlp", None)
    ada = house.member("ada", "nlp")
    with pytest.raises(NotFound):
        house.submit(name="spy", principal=ada, after=after(prep.id))
    with pytest.raises(NotFound):
        house.submit(name="spy", tenant="nlp", after=after(prep.id))


def test_contradictions_are_refused(house: House, prep: JobOut) -> None:
    with pytest.raises(BadDependency):
        house.submit(name="b", after=after("prep:ok", "prep:fail"))
    with pytest.raises(BadOption):
        house.submit(name="b", after=after("prep"), wait=False)


def test_a_held_job_counts_in_the_limits_and_is_promised_nothing(
    house: House, prep: JobOut
) -> None:
    house.submit(name="b", after=after("prep"))
    cache = house.allocations.cache
    assert cache.count_entries(house.admin.tenant, house.admin.user_id) == 1
    assert cache.count_waiting() == 0
    assert house.job("b").start is None


def test_without_dependencies_an_end_costs_one_look(house: House, prep: JobOut) -> None:
    seen = list[str]()

    def note(_c: object, _cursor: object, statement: str, *_rest: object) -> None:
        seen.append(statement)

    sa.event.listen(house.store.engine, "before_cursor_execute", note)
    house.finish("prep")
    sa.event.remove(house.store.engine, "before_cursor_execute", note)
    mine = [statement for statement in seen if "dependencies.outcome IS NULL" in statement]
    assert len(mine) == 1


def test_the_looks_use_the_indexes(house: House) -> None:
    looks = {
        "ix_dependencies_doomed": settlement._DOOMED_CLAIMS,
        "ix_dependencies_open": settlement._AWAITED,
        "ix_dependencies_unmet": sa.select(dependencies.c.claim_id).where(IS_UNMET),
    }
    values = {"most": 1, "kind": "job", "keys": [1]}
    with house.store.read() as connection:
        for index, look in looks.items():
            known = {name: values[name] for name in look.compile().params if name in values}
            compiled = look.params(known).compile(
                connection, compile_kwargs={"literal_binds": True, "render_postcompile": True}
            )
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {compiled}").all()
            assert index in str(plan)
