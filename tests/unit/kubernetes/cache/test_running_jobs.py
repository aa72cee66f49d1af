"""What the scheduler sees of an entry is made anew only where the entry, its pod or its card's row
is another."""

from __future__ import annotations

from dataclasses import replace

from gpupool.kubernetes.cache.running_jobs import RunningJobs
from gpupool.kubernetes.resources.gpu_node import Entry, EntryState, GpuNode
from gpupool.kubernetes.resources.pod import Pod, read_pod
from gpupool.model.allocation import Seat
from gpupool.scheduling.quota.eviction_units import list_eviction_units
from tests.support import kube_builders

ROWS = {"GPU-0": 4}


def entry(name: str) -> Entry:
    return Entry(
        f"uid-{name}", "default", name, "main", (Seat("GPU-0", 300, 8 << 30),), "default", held_ns=1
    )


def test_an_entry_beside_a_new_one_stays_the_object_that_it_was() -> None:
    jobs, pods = RunningJobs(), {f"uid-{name}": read_pod(kube_builders.pod(name)) for name in "abc"}
    jobs.note_ledger(GpuNode("n0", entries=(entry("a"), entry("b"))), pods, ROWS)
    before = tuple(jobs.all_jobs())
    assert len(before) == 2
    jobs.note_ledger(GpuNode("n0", entries=(entry("a"), entry("b"), entry("c"))), pods, dict(ROWS))
    assert [one.job for one in jobs.all_jobs()] == ["uid-a/main", "uid-b/main", "uid-c/main"]
    assert all(now is was for now, was in zip(tuple(jobs.all_jobs())[:2], before, strict=True))


def test_an_entry_whose_pod_or_row_changed_is_read_anew() -> None:
    jobs, pods = RunningJobs(), {"uid-a": read_pod(kube_builders.pod("a"))}
    node = GpuNode("n0", entries=(entry("a"),))
    jobs.note_ledger(node, pods, ROWS)
    pods["uid-a"] = replace(pods["uid-a"], preemptible=True)
    jobs.note_ledger(node, pods, ROWS)
    assert jobs.all_jobs()[0].preemptible
    jobs.note_ledger(node, pods, {"GPU-0": 7})
    assert jobs.all_jobs()[0].rows == (7,)


def test_what_is_known_of_a_node_goes_with_it() -> None:
    jobs = RunningJobs()
    jobs.note_ledger(GpuNode("n0", entries=(entry("a"),)), {}, ROWS)
    jobs.keep_only(["n1"])
    assert jobs.all_jobs() == ()


def member(name: str, started: int, containers: tuple[str, ...] = ("main",), **more) -> Pod:
    asked = {one: kube_builders.asking() for one in containers}
    made = read_pod(kube_builders.pod(name, asked, gang=kube_builders.gang(3, 2), preemptible=True))
    return replace(made, started_ns=started, **more)


def seen(*pods: Pod, entries: tuple[Entry, ...] = ()) -> list[list[str]]:
    """What leaves together, by the names of the pods."""
    jobs = RunningJobs()
    mine = tuple(
        replace(entry(pod.name), gang=pod.gang, container=ask.container, state=EntryState.ACTIVE)
        for pod in pods
        for ask in pod.asks
    )
    jobs.note_ledger(GpuNode("n0", entries=(*mine, *entries)), {pod.uid: pod for pod in pods}, ROWS)
    return [
        sorted(job.job.split("/")[0] for job in unit.jobs)
        for unit in list_eviction_units(jobs.all_jobs())
    ]


def test_a_member_beyond_the_minimum_that_started_last_may_leave_alone() -> None:
    assert seen(member("a", 3), member("b", 1), member("c", 2)) == [["uid-b", "uid-c"], ["uid-a"]]


def test_a_gang_whose_pods_have_several_claims_leaves_whole() -> None:
    pods = [member(name, at, ("main", "side")) for at, name in enumerate("abc")]
    assert seen(*pods) == [sorted([f"uid-{name}" for name in "abc"] * 2)]


def test_a_gang_with_a_seat_for_a_member_to_come_leaves_whole() -> None:
    pods = member("a", 1), member("b", 2)
    to_come = replace(entry("c"), uid="gang/default/train/0", gang=pods[0].gang)
    assert seen(*pods, entries=(to_come,)) == [["gang", "uid-a", "uid-b"]]


def test_whoever_ends_by_itself_frees_its_seats_for_all_and_is_not_evicted() -> None:
    jobs = RunningJobs()
    pods = {
        f"uid-{name}": replace(read_pod(kube_builders.pod(name)), preemptible=True)
        for name in "abc"
    }
    pods["uid-b"] = replace(pods["uid-b"], deleting=True)
    drains = replace(entry("c"), state=EntryState.DRAINING)
    told = replace(entry("e"), leaving_for="uid-x/main")
    to_come = replace(entry("f"), uid="gang/default/train/0", gang="default/train")
    jobs.note_ledger(
        GpuNode("n0", entries=(entry("a"), entry("b"), drains, entry("d"), told, to_come)),
        pods,
        ROWS,
    )
    found = {one.job: (one.beneficiary, one.preemptible) for one in jobs.all_jobs()}
    assert found == {
        "uid-a/main": ("", True),
        "uid-b/main": ("uid-b/main", False),
        "uid-c/main": ("uid-c/main", False),
        "uid-d/main": ("uid-d/main", False),
        "uid-e/main": ("uid-x/main", False),
        "gang/default/train/0/main": ("", False),
    }
