"""Tables of the plugin are made of ledgers and pods, and say `--` where nothing is known."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.cli.output import table
from gpupool.kubernetes import names
from gpupool.kubernetes.objects import GpuNode
from gpupool.kubernetes.plugin import map as shown
from gpupool.kubernetes.plugin import quota, top, why
from gpupool.kubernetes.plugin.main import main
from gpupool.kubernetes.pods import read_pod
from tests.support.kube_builders import gpu_node, pod

GIB = 1 << 30


def entry(name: str = "a", milli: int = 300, card: int = 0, **more: Any) -> dict[str, Any]:
    cards = [{"uuid": f"GPU-n0-{card}", "gpuMilli": milli, "memoryBytes": 8 * GIB}]
    found = {"uid": f"uid-{name}", "namespace": "team", "pod": name, "container": "main", "cards": cards}
    return {**found, "tenant": "team", "state": "active", "generation": 1, **more}


def ledger(*entries: dict[str, Any], count: int = 2) -> GpuNode:
    return GpuNode.from_json(gpu_node(count=count, allocations=list(entries)))


def test_a_map_shows_both_numbers_of_every_share_and_how_it_stands() -> None:
    node = ledger(entry(), entry("b", 200, state="reserved"))
    assert table(shown.rows_of(node), [one for one in shown.COLUMNS if not one.wide]) == (
        "CARD  MODEL  MODE  HEALTH      HELD  MEMORY                  SHARES\n"
        "n0/0  L40S   slot  ok      0.50 GPU  16384 MiB of 49152 MiB  "
        "team/a: 0.30 GPU + 8192 MiB, team/b: 0.20 GPU + 8192 MiB (reserved)\n"
        "n0/1  L40S   slot  ok      0.00 GPU  0 MiB of 49152 MiB      free"
    )


def test_who_holds_most_comes_first() -> None:
    rows = top.rows_of([ledger(entry(), entry("b", 1000, 1))])
    assert [(row["pod"], row["gpu_milli"], row["cards"]) for row in rows] == [
        ("team/b", 1000, [1]),
        ("team/a", 300, [0]),
    ]
    assert top.title([ledger(entry())]) == "0.30 of 2.00 GPU held on 1 adopted node"


def test_a_quota_counts_what_is_held_and_who_waits_by_the_tenant_of_the_namespace() -> None:
    tenants = [
        {"metadata": {"name": "nlp"}, "spec": {"namespaces": ["a", "b"], "limits": {"gpu": {"nominal": "2500m"}}}}
    ]
    rows = quota.rows_of(tenants, [ledger(entry(tenant="nlp"))], [read_pod(pod(namespace=one)) for one in ("a", "c")])
    assert [(row["tenant"], row["nominal_milli"], row["held_milli"], row["waiting"]) for row in rows] == [
        ("c", None, 0, 1),
        ("nlp", 2500, 300, 1),
    ]


def test_a_limit_that_cannot_be_read_is_shown_as_it_was_typed_and_stops_nothing() -> None:
    told = {"conditions": [{"type": "InForce", "status": "False"}]}
    tenant = {"metadata": {"name": "nlp"}, "spec": {"limits": {"gpu": {"nominal": "many"}}}, "status": told}
    (row,) = quota.rows_of([tenant], [], [])
    assert (row["nominal"], row["nominal_milli"], row["in_force"]) == ("many", None, False)
    assert table([row], quota.COLUMNS[2:3]).split() == ["NOMINAL", "many"]


def test_why_says_where_a_pod_is_on_its_way() -> None:
    def stands(found: dict[str, Any], *entries: dict[str, Any]) -> str:
        return why._stands(why.facts(found, [ledger(*entries)]))

    waiting = pod(namespace="team")
    assert "has not said why yet" in stands(waiting)
    told = {"type": names.CONDITION, "status": "False", "reason": "SchedulingGated", "message": "needs a whole card"}
    assert stands({**waiting, "status": {"conditions": [told]}}) == "needs a whole card"
    assert stands(waiting, entry(state="reserved")) == "its cards are reserved; it is released next"
    bound = pod(namespace="team", spec={"nodeName": "n0", "schedulingGates": []})
    assert stands(bound, entry()) == "it is on n0"
    assert stands(bound) == "it is on n0, and no ledger knows of it"
    plain = pod(namespace="team")
    plain["metadata"]["labels"] = {}
    assert stands(plain) == "it asks no cards of gpupool, and gpupool does nothing with it"


def test_a_claim_that_was_changed_is_told_as_the_reason() -> None:
    changed = pod()
    changed["metadata"]["annotations"][names.CLAIM] = "{}"
    assert names.CLAIM in why._stands(why.facts(changed, []))


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["mpa"], 2, "did you mean: kubectl gpupool map"),
        (["map", "--nod", "x"], 2, "GP-1005"),
        (["map", "--kubeconfig", "/nowhere"], 2, "there is no kubeconfig at /nowhere"),
        (["adopt"], 2, "missing: NODE"),
        (["adopt", "n0", "--mode", "dra"], 2, "one of: slot, whole"),
    ],
)
def test_a_command_line_that_cannot_be_meant_is_refused_with_what_to_type(
    words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words, {}) == code
    assert said in capsys.readouterr().err


def test_every_command_has_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    from gpupool.kubernetes.plugin import COMMANDS

    for name in COMMANDS:
        assert main([name, "--help"], {}) == 0
        assert f"kubectl gpupool {name}: " in capsys.readouterr().out


def status(**states: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "main", **states}]}


STARTS = "OCI runtime create failed: hook: exit status 1, stdout: , stderr: GP-2018: the image has musl"


@pytest.mark.parametrize(
    "states",
    [
        {"state": {"waiting": {"reason": "RunContainerError", "message": STARTS}}},
        {"state": {"terminated": {"reason": "StartError", "message": STARTS}}},
        {
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
            "lastState": {"terminated": {"reason": "StartError", "message": STARTS}},
        },
    ],
    ids=["refused now", "never again", "tried again later"],
)
def test_a_container_that_is_refused_on_its_node_is_told_with_the_reason(states: dict[str, Any]) -> None:
    found = {**pod(namespace="team", spec={"nodeName": "n0", "schedulingGates": []}), "status": status(**states)}
    told = why.facts(found, [ledger(entry())])
    assert told["refused"] == {"main": "GP-2018: the image has musl"}
    assert ("main does not start", "GP-2018: the image has musl") in why._lines(told)


@pytest.mark.parametrize(
    "states",
    [
        {"state": {"running": {}}, "lastState": {"terminated": {"reason": "StartError", "message": STARTS}}},
        {"state": {"terminated": {"reason": "Error", "message": "GP-2018: a program's own last words"}}},
        {"state": {"waiting": {"reason": "ContainerCreating"}}},
        {},
    ],
    ids=["runs since", "a program's words", "on its way", "nothing yet"],
)
def test_a_container_that_nobody_refuses_is_not_told(states: dict[str, Any]) -> None:
    assert why.facts({**pod(), "status": status(**states)}, [])["refused"] == {}
