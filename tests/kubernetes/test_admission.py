"""Gates added inside the API server, pods kept out by it, and quotas that count what waits."""

from collections.abc import Iterator

import pytest

from tests.support.cluster.api import Api, Object, RefusedError
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.pods import pod

POLICIES = "/apis/admissionregistration.k8s.io/v1"
GATE = "gpupool.test/placement"
CARD = "gpupool.test/card"
FORBIDDEN, INVALID = 403, 422
PROBE_LIMIT_SECONDS = 60


def _policy(kind: str, name: str, **spec: object) -> Object:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


PODS_MADE = {
    "resourceRules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]},
    ]
}
ASKS = (
    "object.spec.containers.exists(c, has(c.resources) && has(c.resources.limits) && "
    f"'{CARD}' in c.resources.limits && 'gated' in object.metadata.labels)"
)
ADD_GATE = f"Object{{spec: Object.spec{{schedulingGates: [Object.spec.schedulingGates{{name: '{GATE}'}}]}}}}"


@pytest.fixture
def gating(admin: Api, pods_path: str) -> Iterator[None]:
    """A policy that gates pods which ask for a card, in effect."""
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": ADD_GATE}}
    policy = _policy(
        "MutatingAdmissionPolicy",
        "gate-askers",
        matchConstraints=PODS_MADE,
        matchConditions=[{"name": "asks", "expression": ASKS}],
        mutations=[mutation],
        failurePolicy="Fail",
        reinvocationPolicy="IfNeeded",
    )
    admin.create(f"{POLICIES}/mutatingadmissionpolicies", policy)
    binding = _policy("MutatingAdmissionPolicyBinding", "gate-askers", policyName="gate-askers")
    admin.create(f"{POLICIES}/mutatingadmissionpolicybindings", binding)
    _until_admitted(admin, pods_path, gated=True)
    yield
    admin.delete(f"{POLICIES}/mutatingadmissionpolicybindings/gate-askers")
    admin.delete(f"{POLICIES}/mutatingadmissionpolicies/gate-askers")
    _until_admitted(admin, pods_path, gated=False)


def _until_admitted(admin: Api, pods_path: str, *, gated: bool) -> None:
    """A policy is in effect once a pod that would be created comes out as it says."""
    namespace = admin.get(pods_path.removesuffix("/pods"))["metadata"]["name"]
    asker = pod("probe", limits={CARD: "1"}, labels={"gated": "yes"})

    def is_so(_: Object) -> bool:
        made = admin.create(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", asker)
        return bool(made["spec"].get("schedulingGates")) == gated

    admin.until(f"/api/v1/namespaces/{namespace}", is_so, PROBE_LIMIT_SECONDS)


def test_a_pod_that_asks_is_gated_by_the_api_server(
    admin: Api, pods_path: str, gating: None
) -> None:
    made = admin.create(pods_path, pod("asker", limits={CARD: "1"}, labels={"gated": "yes"}))
    assert made["spec"]["schedulingGates"] == [{"name": GATE}]


def test_the_gates_of_others_stay_beside_ours(admin: Api, pods_path: str, gating: None) -> None:
    asker = pod("asker", gates=["example.test/quota"], limits={CARD: "1"}, labels={"gated": "yes"})
    gates = [gate["name"] for gate in admin.create(pods_path, asker)["spec"]["schedulingGates"]]
    assert sorted(gates) == ["example.test/quota", GATE]


def test_a_pod_that_asks_for_nothing_is_left_alone(
    admin: Api, pods_path: str, gating: None
) -> None:
    assert (
        "schedulingGates"
        not in admin.create(pods_path, pod("plain", labels={"gated": "yes"}))["spec"]
    )


def test_a_quota_charges_pods_that_are_gated(admin: Api, pods_path: str) -> None:
    quotas = pods_path.removesuffix("/pods") + "/resourcequotas"
    hard = {f"requests.{CARD}": "3"}
    admin.create(
        quotas,
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "q"},
            "spec": {"hard": hard},
        },
    )
    admin.until(f"{quotas}/q", lambda q: q["status"].get("hard") == hard)
    admin.create(pods_path, pod("first", gates=[GATE], limits={CARD: "2"}))
    admin.until(f"{quotas}/q", lambda q: q["status"]["used"] == {f"requests.{CARD}": "2"})
    with pytest.raises(RefusedError, match="exceeded quota") as refusal:
        admin.create(pods_path, pod("second", gates=[GATE], limits={CARD: "2"}))
    assert refusal.value.status == FORBIDDEN
    admin.delete(f"{pods_path}/first")
    admin.until(f"{quotas}/q", lambda q: q["status"]["used"] == {f"requests.{CARD}": "0"})


def test_an_agent_writes_its_own_node_and_no_other(
    cluster: Cluster, admin: Api, pods_path: str, simulated_nodes: list[str]
) -> None:
    """A policy compares the object's name with the node that the token is bound to."""
    mine, other = simulated_nodes[:2]
    namespace = pods_path.split("/")[-2]
    api = cluster.access().agent(namespace, "agent", mine)
    rule = "object.metadata.name == request.userInfo.extra['authentication.kubernetes.io/node-name'][0]"
    changed = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["UPDATE"],
        "resources": ["nodes/status"],
    }
    policy = _policy(
        "ValidatingAdmissionPolicy",
        "own-node",
        matchConstraints={"resourceRules": [changed]},
        matchConditions=[
            {
                "name": "agents",
                "expression": f"request.userInfo.username.endsWith('{namespace}:agent')",
            }
        ],
        validations=[{"expression": rule, "message": "an agent reports on its own node"}],
    )
    binding = _policy(
        "ValidatingAdmissionPolicyBinding",
        "own-node",
        policyName="own-node",
        validationActions=["Deny"],
    )
    admin.create(f"{POLICIES}/validatingadmissionpolicies", policy)
    admin.create(f"{POLICIES}/validatingadmissionpolicybindings", binding)
    report = {"status": {"capacity": {"gpupool.test/reported": "1"}}}
    try:
        admin.until(
            f"/api/v1/nodes/{other}",
            lambda _: _is_kept_out(api, other, report),
            PROBE_LIMIT_SECONDS,
        )
        assert (
            api.merge(f"/api/v1/nodes/{mine}/status", report)["status"]["capacity"][
                "gpupool.test/reported"
            ]
            == "1"
        )
    finally:
        admin.delete(f"{POLICIES}/validatingadmissionpolicybindings/own-node")
        admin.delete(f"{POLICIES}/validatingadmissionpolicies/own-node")


def _is_kept_out(api: Api, node: str, report: Object) -> bool:
    try:
        api.merge(f"/api/v1/nodes/{node}/status", report)
    except RefusedError as refusal:
        assert refusal.status == INVALID
        assert "an agent reports on its own node" in refusal.body
        return True
    return False


def test_an_account_may_do_what_its_rules_say_and_no_more(cluster: Cluster, pods_path: str) -> None:
    namespace = pods_path.split("/")[-2]
    access = cluster.access()
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
    access.service_account(namespace, "reader", rules)
    reader = access.client(access.token(namespace, "reader"))
    assert reader.get(pods_path)["items"] == []
    with pytest.raises(RefusedError) as refusal:
        reader.create(pods_path, pod("p"))
    assert refusal.value.status == FORBIDDEN
