"""What a pod asks beside cards is judged node by node, and pods of one plan beside each other."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.kubernetes import fitting
from gpupool.kubernetes.amounts import others_of
from gpupool.kubernetes.hosts import Host
from gpupool.kubernetes.needs import HOSTNAME, NOTHING, Nearby, Port, Selector, needs_of, resources_of
from gpupool.kubernetes.objects import GpuNode
from gpupool.kubernetes.pods import read_pod
from gpupool.kubernetes.pool import Pool
from gpupool.kubernetes.reported import Others
from gpupool.scheduling.cycle import cycle
from tests.support.kube_builders import asking, gang, gpu_node, node, pod

ZONE = "zone"
WHOLE = {"main": asking(1, 1000, None)}


@pytest.fixture
def pool() -> Pool:
    made = Pool()
    for number in range(4):
        labels = {HOSTNAME: f"n{number}", ZONE: "ab"[number // 2]}
        made.note_host(f"n{number}", Host.from_json(node(f"n{number}", **labels)))
        made.note_ledger(f"n{number}", GpuNode.from_json(gpu_node(f"n{number}")))
    made.rules.around.listed()
    made.rules.volumes.listed()
    return made


def note(pool: Pool, *pods: dict[str, Any]) -> None:
    for each in pods:
        pool.note_pod(each["metadata"]["uid"], read_pod(each))


def placed(pool: Pool) -> list[str]:
    """Where the pods of one plan go, in order."""
    crowded = fitting.crowded(pool)
    plan = cycle(pool.snapshot(without=crowded), 0)
    return [one.node for one in fitting.kept(plan.placements, pool)]


def report(pool: Pool, name: str, *pods: dict[str, Any], version: int = 1) -> None:
    """What a node's agent says of others' pods there."""
    found = gpu_node(name, version=version)
    found["status"]["others"] = others_of(pods).to_json()
    pool.note_ledger(name, GpuNode.from_json(found))


def with_port(name: str, number: int, **more: Any) -> dict[str, Any]:
    made = pod(name, WHOLE, **more)
    made["spec"]["containers"][0]["ports"] = [{"containerPort": number, "hostPort": number}]
    return made


def other(name: str, spec: dict[str, Any] | None = None, at: str = "", **labels: str) -> dict[str, Any]:
    """A pod of somebody else's."""
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels}
    return {
        "metadata": meta,
        "spec": {"nodeName": at, "containers": [], **(spec or {})},
        "status": {"phase": "Running"},
    }


def affinity(kind: str, key: str, app: str, **more: Any) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **more}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def labelled(made: dict[str, Any], app: str) -> dict[str, Any]:
    made["metadata"]["labels"]["app"] = app
    return made


def test_most_pods_ask_nothing_more_and_share_one_answer() -> None:
    assert needs_of(pod()) is NOTHING


@pytest.mark.parametrize(
    ("mine", "theirs", "meet"),
    [
        (Port(80), Port(80), True),
        (Port(80), Port(81), False),
        (Port(80), Port(80, "UDP"), False),
        (Port(80, "TCP", "10.0.0.1"), Port(80, "TCP", "10.0.0.2"), False),
        (Port(80, "TCP", "10.0.0.1"), Port(80), True),
    ],
)
def test_ports_meet_by_number_protocol_and_address(mine: Port, theirs: Port, meet: bool) -> None:
    assert mine.meets(theirs) is theirs.meets(mine) is meet


def test_what_else_is_asked_is_added_up_as_for_processors() -> None:
    def one(amount: str, **more: str) -> dict[str, Any]:
        return {"name": "c", "resources": {"requests": {"ephemeral-storage": amount}}, **more}

    spec = {"containers": [one("2"), one("3")], "initContainers": [one("1", restartPolicy="Always"), one("9")]}
    assert resources_of({**spec, "overhead": {"ephemeral-storage": "5"}}) == (("ephemeral-storage", 15),)


def test_others_come_as_they_were_reported() -> None:
    apart = affinity("podAntiAffinity", ZONE, "x", namespaceSelector={"matchLabels": {"team": "a"}})
    told = others_of([{**with_port("x", 80), "metadata": {**other("x")["metadata"]}}, other("y", apart)])
    assert told.ports == (Port(80),)
    assert told.apart == (Nearby(ZONE, Selector((("app", "In", ("x",)),)), (), Selector((("team", "In", ("a",)),))),)
    assert Others.from_json(told.to_json()) == told


def test_a_port_that_is_taken_and_one_that_another_pod_of_the_plan_takes(pool: Pool) -> None:
    report(pool, "n0", with_port("x", 80) | {"metadata": other("x")["metadata"]})
    note(pool, *(with_port(f"p{n}", 80) for n in range(3)))
    first = placed(pool)
    assert len(first) == 1
    assert first != ["n0"]


def test_a_gang_that_wants_a_node_for_each_member_waits_for_that_many(pool: Pool) -> None:
    note(pool, *(with_port(f"p{n}", 80, gang=gang(5)) for n in range(5)))
    assert placed(pool) == []
    assert fitting.crowded(pool) == {"default/train": "5 members each want a node of their own, and 4 can take one now"}


def test_pods_keep_away_from_each_other_within_one_plan(pool: Pool) -> None:
    apart = affinity("podAntiAffinity", HOSTNAME, "web")
    note(pool, *(labelled(pod(f"p{n}", WHOLE, spec=apart), "web") for n in range(3)))
    assert len(placed(pool)) == 1


def test_who_is_kept_away_by_a_pod_of_the_same_plan_is_left_out(pool: Pool) -> None:
    one = pod("a", WHOLE, spec={**affinity("podAntiAffinity", ZONE, "loud"), "priority": 9})
    note(pool, one, labelled(pod("b", WHOLE), "loud"))
    assert len(placed(pool)) == 1


def test_pods_there_keep_a_pod_away_from_their_whole_domain(pool: Pool) -> None:
    report(pool, "n0", other("guard", affinity("podAntiAffinity", ZONE, "loud")))
    note(pool, labelled(pod("a", WHOLE), "loud"), labelled(pod("b", WHOLE), "quiet"))
    crowded = fitting.crowded(pool)
    plan = cycle(pool.snapshot(without=crowded), 0)
    found = {one.job: one.node for one in plan.placements}
    assert found["uid-a/main"] in ("n2", "n3")


def test_namespaces_are_meant_by_name_or_by_label(pool: Pool) -> None:
    rule = Nearby(ZONE, Selector(), ("a",), Selector((("team", "In", ("x",)),)))
    assert rule.matches("a", {}, {})
    assert rule.matches("b", {}, {"b": {"team": "x"}})
    assert not rule.matches("b", {}, {"b": {"team": "y"}})
    assert Nearby(ZONE, Selector(), (), Selector()).matches("anything", {}, {})
    assert not Nearby(ZONE, None, ("a",)).matches("a", {}, {})


def test_the_first_of_a_herd_goes_anywhere_and_a_guest_waits_for_its_host(pool: Pool) -> None:
    near = affinity("podAffinity", ZONE, "herd")
    note(pool, labelled(pod("guest", WHOLE, spec=near), "guest"))
    assert placed(pool) == []
    note(pool, labelled(pod("first", WHOLE, spec=near), "herd"))
    assert len(placed(pool)) == 1
    pool.rules.around.note(other("host", at="n3", app="herd"), False)
    assert set(placed(pool)) <= {"n2", "n3"}


def test_a_pod_that_asks_for_those_around_it_waits_until_they_are_known(pool: Pool) -> None:
    pool.rules.around.forget()
    note(pool, labelled(pod("a", WHOLE, spec=affinity("podAffinity", ZONE, "a")), "a"))
    assert pool.held_up == {"uid-a": "the pods around it are being looked up"}
    pool.rules.around.listed()
    assert len(placed(pool)) == 1
    assert pool.held_up == {}


@pytest.mark.parametrize(
    ("counts", "more", "nodes"),
    [
        ({"n0": 1}, {}, {"n2", "n3"}),
        ({"n0": 1, "n2": 1}, {}, {"n0", "n1", "n2", "n3"}),
        ({"n0": 1}, {"maxSkew": 2}, {"n0", "n1", "n2", "n3"}),
        ({"n0": 1, "n2": 1}, {"minDomains": 3}, set()),
    ],
)
def test_spread(pool: Pool, counts: dict[str, int], more: dict[str, Any], nodes: set[str]) -> None:
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **more}
    rule["labelSelector"] = {"matchLabels": {"app": "web"}}
    for name, count in counts.items():
        for n in range(count):
            pool.rules.around.note(other(f"{name}-{n}", at=name, app="web"), False)
    made = read_pod(labelled(pod("a", WHOLE, spec={"topologySpreadConstraints": [rule]}), "web"))
    assert set(fitting.admitting(pool.rules.of(made), pool)) == set()  # nothing was looked at yet
    pool.refresh()
    assert set(fitting.admitting(pool.rules.of(made), pool)) == nodes


def test_who_was_let_go_counts_before_it_is_bound(pool: Pool) -> None:
    apart = affinity("podAntiAffinity", HOSTNAME, "web")
    note(pool, labelled(pod("a", WHOLE, spec=apart), "web"))
    (where,) = placed(pool)
    entries = [
        {
            "uid": "uid-a",
            "namespace": "default",
            "pod": "a",
            "container": "main",
            "cards": [{"uuid": f"GPU-{where}-0", "gpuMilli": 1000, "memoryBytes": 1}],
            "tenant": "default",
            "state": "reserved",
            "generation": 2,
        }
    ]
    pool.note_ledger(where, GpuNode.from_json(gpu_node(where, version=2, allocations=entries)))
    note(pool, labelled(pod("b", WHOLE, spec=apart), "web"))
    (second,) = placed(pool)
    assert second != where
