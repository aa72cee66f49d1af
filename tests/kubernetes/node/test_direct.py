"""A direct pod and one of kube-scheduler's on the same processors: the kubelet takes one, and the
other comes again."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from gpupool.base import quantities
from gpupool.kubernetes.ledger import ledger
from tests.support.cluster import pods
from tests.support.cluster.api import Api, Object
from tests.support.cluster.images import SHELL
from tests.support.cluster.node import NAME
from tests.support.cluster.pods import is_bound
from tests.support.cluster_pool import ClusterPool, NodeParts, fresh
from tests.support.kube_builders import asking, pod

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("cards_come_back")]

SLEEPS = {"image": SHELL.name, "command": ["/bin/sleep", "600"]}
SECONDS = 60.0


@pytest.fixture
def silent_agent(parts: NodeParts) -> Iterator[NodeParts]:
    """It tells nothing of what others have, as for a moment after every bind of theirs."""
    assert parts.agent is not None
    parts.agent.send_signal(signal.SIGSTOP)
    yield parts
    parts.agent.send_signal(signal.SIGCONT)


def of_a_job(pods_path: str, cpu: str) -> Object:
    made = fresh(
        pod("again", {"main": asking()}, direct=True, spec={"terminationGracePeriodSeconds": 0})
    )
    made["spec"] |= {"restartPolicy": "Never"}
    made["spec"]["containers"][0] |= SLEEPS
    made["spec"]["containers"][0]["resources"]["requests"] = {"cpu": cpu}
    template = {
        "metadata": {key: made["metadata"][key] for key in ("labels", "annotations")},
        "spec": made["spec"],
    }
    return {"metadata": {"name": "again"}, "spec": {"backoffLimit": 3, "template": template}}


def others(admin: Api) -> int:
    return int(admin.get(f"{ledger.NODES}/{NAME}")["status"].get("others", {}).get("cpuMilli", 0))


def test_who_is_turned_away_gives_its_cards_back_and_its_owners_next_one_waits_for_the_processors(
    pool: ClusterPool, silent_agent: NodeParts, admin: Api, pods_path: str
) -> None:
    has = admin.get(f"/api/v1/nodes/{NAME}")["status"]["allocatable"]["cpu"]
    taken = others(admin)
    free = quantities.parse_milli(has) - taken
    filler = pods.pod("filler", command=SLEEPS["command"])
    filler["spec"]["containers"][0]["resources"] = {"requests": {"cpu": f"{free - 100}m"}}
    admin.create(pods_path, filler)
    admin.until(f"{pods_path}/filler", is_bound)
    space = pods_path.split("/")[4]
    jobs = f"/apis/batch/v1/namespaces/{space}/jobs"
    admin.create(jobs, of_a_job(pods_path, f"{free - 100}m"))

    def of_the_job() -> list[Object]:
        return [one for one in admin.get(pods_path)["items"] if one["metadata"]["name"] != "filler"]

    def turned_away() -> list[Object]:
        return [one for one in of_the_job() if one["status"].get("reason") == "OutOfcpu"]

    (first,) = pool.until(turned_away, "the kubelet turns it away", SECONDS)
    events = f"/apis/events.k8s.io/v1/namespaces/{space}/events"
    (told,) = pool.until(
        lambda: [one for one in admin.get(events)["items"] if one["reason"] == "TurnedAway"], "told"
    )
    assert told["regarding"]["uid"] == first["metadata"]["uid"]

    def waits() -> list[Object]:
        return [
            one
            for one in of_the_job()
            if "nodeName" not in one["spec"] and one["status"].get("conditions")
        ]

    (second,) = pool.until(waits, "its owner's next one waits", SECONDS)
    assert len(turned_away()) == 1
    assert silent_agent.agent is not None
    silent_agent.agent.send_signal(signal.SIGCONT)
    pool.until(lambda: others(admin) > taken, "the agent tells who is there", SECONDS)
    pool.until(lambda: pool.entries()[NAME] == [], "the cards of the first one are free", SECONDS)
    admin.delete(f"{pods_path}/filler?gracePeriodSeconds=0")
    path = f"{pods_path}/{second['metadata']['name']}"
    admin.until(path, lambda found: found["status"]["phase"] == "Running", SECONDS)
    assert len(turned_away()) == 1
    admin.delete(f"{jobs}/again?propagationPolicy=Background")
    admin.until_gone(path)
