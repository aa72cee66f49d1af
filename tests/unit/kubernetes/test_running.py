"""What the scheduler sees of an entry is made anew only where the entry, its pod or its card's row is another."""

from __future__ import annotations

from dataclasses import replace

from gpupool.kubernetes.objects import Entry, GpuNode
from gpupool.kubernetes.pods import read_pod
from gpupool.kubernetes.running import RunningJobs
from gpupool.model.allocation import Seat
from tests.support import kube_builders

ROWS = {"GPU-0": 4}


def entry(name: str) -> Entry:
    return Entry(f"uid-{name}", "default", name, "main", (Seat("GPU-0", 300, 8 << 30),), "default", held_ns=1)


def test_an_entry_beside_a_new_one_stays_the_object_that_it_was() -> None:
    jobs, pods = RunningJobs(), {f"uid-{name}": read_pod(kube_builders.pod(name)) for name in "abc"}
    jobs.note(GpuNode("n0", entries=(entry("a"), entry("b"))), pods, ROWS)
    before = tuple(jobs.all())
    assert len(before) == 2
    jobs.note(GpuNode("n0", entries=(entry("a"), entry("b"), entry("c"))), pods, dict(ROWS))
    assert [one.job for one in jobs.all()] == ["uid-a/main", "uid-b/main", "uid-c/main"]
    assert all(now is was for now, was in zip(tuple(jobs.all())[:2], before, strict=True))


def test_an_entry_whose_pod_or_row_changed_is_read_anew() -> None:
    jobs, pods = RunningJobs(), {"uid-a": read_pod(kube_builders.pod("a"))}
    node = GpuNode("n0", entries=(entry("a"),))
    jobs.note(node, pods, ROWS)
    pods["uid-a"] = replace(pods["uid-a"], preemptible=True)
    jobs.note(node, pods, ROWS)
    assert jobs.all()[0].preemptible
    jobs.note(node, pods, {"GPU-0": 7})
    assert jobs.all()[0].rows == (7,)


def test_what_is_known_of_a_node_goes_with_it() -> None:
    jobs = RunningJobs()
    jobs.note(GpuNode("n0", entries=(entry("a"),)), {}, ROWS)
    jobs.keep_only(["n1"])
    assert jobs.all() == ()
