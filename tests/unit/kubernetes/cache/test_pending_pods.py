"""Who waits, oldest first, however they came; and what one more costs."""

from __future__ import annotations

import random
from dataclasses import replace

from gpupool.kubernetes.cache.pending_pods import HEADS, PodQueue, PresentMembers
from gpupool.kubernetes.resources.pod import Pod, read_pod
from tests.support.kube_builders import pod

ONE = read_pod(pod())
PODS = 1000


def _nobody(_gang: str) -> PresentMembers:
    return PresentMembers({}, 0)


class Instant(int):
    """Of a creation; it counts how often two are compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Instant.compared += 1
        return int.__eq__(self, int(other)) if isinstance(other, int) else NotImplemented

    def __lt__(self, other: int) -> bool:
        Instant.compared += 1
        return int.__lt__(self, int(other))

    __hash__ = int.__hash__


def made(number: int, created_ns: int) -> Pod:
    return replace(ONE, uid=f"uid-{number:04}", name=f"p{number:04}", created_ns=created_ns)


def heads(queue: PodQueue) -> list[str]:
    (waiting,) = queue.waiting_classes(_nobody)
    return [job.partition("/")[0] for job in waiting.job_ids]


def test_the_oldest_come_first_and_those_of_one_second_by_name() -> None:
    queue, pods = PodQueue(), [made(n, n // 3) for n in range(200)]
    random.Random(7).shuffle(pods)
    for one in pods:
        queue.put_pod(one, "t")
    for one in pods[::2]:
        queue.remove_pod(one.uid)
    queue.put_pod(pods[0], "t")
    queue.put_pod(pods[0], "t")
    left = sorted([pods[0], *pods[1::2]], key=lambda one: one.uid)
    assert heads(queue) == [one.uid for one in left[:HEADS]]
    assert {
        one.uid for key in [queue.waiting_classes(_nobody)[0].key] for one in queue.pods_of(key)
    } == {one.uid for one in left}


def test_one_more_of_a_large_class_costs_a_search_and_no_sort() -> None:
    """Each comes, is planned for, is read anew and goes, as pods do that are created one by one."""
    queue, pods = PodQueue(), [made(n, Instant(n)) for n in range(PODS)]
    Instant.compared = 0
    for one in pods:
        queue.put_pod(one, "t")
        queue.put_pod(one, "t")
        assert heads(queue)
    for one in pods:
        queue.remove_pod(one.uid)
    assert len(queue) == 0
    searches, most = 4 * PODS, 2 * PODS.bit_length() + 2
    assert Instant.compared <= searches * most + PODS * HEADS, "and a plan looks at its heads"


def test_a_class_that_nothing_happened_to_is_the_same_object_in_the_next_snapshot() -> None:
    queue = PodQueue(lambda one: one.constraint)
    queue.put_pod(made(1, 1), "t")
    queue.put_pod(replace(made(2, 2), priority=7), "t")
    queue.put_pod(replace(made(3, 3), gang="g", gang_size=2, gang_minimum=1), "t")
    before = queue.waiting_classes(_nobody, begun=frozenset())
    queue.put_pod(replace(made(4, 4), priority=7), "t")
    after = queue.waiting_classes(_nobody, begun=frozenset())
    assert [one is other for one, other in zip(before, after, strict=True)] == [True, False, True]
    assert queue.waiting_classes(_nobody, begun={"g"})[2] is not before[2]
    assert queue.count_by_tenant() == {"t": 4}
    queue.remove_pod("uid-0003")
    assert len(queue.waiting_classes(_nobody, begun={"g"})) == 2
    assert queue.count_by_tenant() == {"t": 3}
