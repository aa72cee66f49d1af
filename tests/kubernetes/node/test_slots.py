"""On a real kubelet every container gets the cards that the ledger gives its pod, and no
other's."""

from __future__ import annotations

import json

import pytest

from gpupool.kubernetes.resources import names
from tests.support.cluster.api import Api, Object, RefusedError
from tests.support.cluster.images import SHELL
from tests.support.cluster_pool import ClusterPool, NodeParts, fresh
from tests.support.identity_rounds import SHARE, round_of_pods
from tests.support.kube_builders import asking, pod

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("cards_come_back")]


def told(admin: Api, pods_path: str, name: str) -> Object | None:
    """What the container saw of its share; None while it has not said all of it: it is started
    again and again."""
    try:
        found: Object = json.loads(admin.text(f"{pods_path}/{name}/log?container=main"))
    except (json.JSONDecodeError, RefusedError):
        return None
    return found


@pytest.mark.parametrize("turn", [0, 1, pytest.param(2, marks=pytest.mark.nightly)])
def test_of_64_pods_at_once_none_sees_a_card_of_another(
    pool: ClusterPool, parts: NodeParts, pods_path: str, turn: int
) -> None:
    """The next round takes the slots that the last one left. `make bench` does twenty."""
    seen = round_of_pods(pool, pods_path, turn)
    assert seen.wrong == [], parts.log()
    assert (seen.pods, seen.containers, seen.unheard) == (64, 64 + 22, 0)


def test_a_restarted_container_has_its_cards_again_also_after_agent_and_plugin_were_killed(
    pool: ClusterPool, parts: NodeParts, admin: Api, pods_path: str
) -> None:
    made = fresh(
        pod("again", {"main": asking(1, 200, 1 << 30)}, spec={"restartPolicy": "OnFailure"})
    )
    made["metadata"]["namespace"] = pods_path.split("/")[4]
    script = f"cat {SHARE}; test -e /tmp/x"
    made["spec"]["containers"][0] |= {"image": SHELL.name, "command": ["/bin/sh", "-c", script]}
    admin.create(pods_path, made)
    admin.until(f"{pods_path}/again", lambda p: restarts(p) >= 1)
    assert parts.agent is not None
    assert parts.plugin is not None
    parts.agent.kill()
    parts.plugin.kill()
    parts.agent.wait()
    parts.plugin.wait()
    before = restarts(admin.get(f"{pods_path}/again"))
    parts.start_agent()
    parts.start_plugin()
    admin.until(f"{pods_path}/again", lambda p: restarts(p) > before, 90)
    (card,) = pool.until(lambda: told(admin, pods_path, "again"), "all that it saw")["devices"]
    assert card["uuid"] in admin.get(f"{pods_path}/again")["metadata"]["annotations"][names.PLACED]


def restarts(found: Object) -> int:
    return sum(one["restartCount"] for one in found["status"].get("containerStatuses", ()))
