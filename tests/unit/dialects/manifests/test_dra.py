"""Resource claims: what is read of them, and the name by which the rest is refused."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.errors import DeviceClaimUnread
from gpupool.dialects.manifests.documents import rewrite_document, understand_document
from gpupool.dialects.manifests.dra import ResourceClaims
from gpupool.dialects.manifests.reading import understand_pod
from tests.unit.dialects.manifests.test_workloads import of


def template(request: dict[str, Any], **devices: Any) -> dict[str, Any]:
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": request}], **devices}}
    return {"kind": "ResourceClaimTemplate", "metadata": {"name": "t"}, "spec": {"spec": spec}}


def user(*containers: str, claim: str = "t") -> dict[str, Any]:
    each = [{"name": name, "resources": {"claims": [{"name": "gpu"}]}} for name in containers]
    claims = [{"name": "gpu", "resourceClaimTemplateName": claim}]
    return {
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": each, "resourceClaims": claims},
    }


WHOLE = {"deviceClassName": "gpu.nvidia.com"}
PROFILE = "device.attributes['gpu.nvidia.com'].profile == '1g.10gb'"


@pytest.mark.parametrize(
    ("request_", "share"),
    [
        (WHOLE, "1.00 GPU (100 % compute) + its part of the memory"),
        (WHOLE | {"count": 2}, "2 × [1.00 GPU (100 % compute) + its part of the memory]"),
        (
            {
                "deviceClassName": "vgpu-manager",
                "capacity": {"requests": {"cores": 50, "memory": "4Gi"}},
                "count": 2,
            },
            "2 × [0.50 GPU (50 % compute) + 4096 MiB]",
        ),
        (
            {"deviceClassName": "mig.nvidia.com", "selectors": [{"cel": {"expression": PROFILE}}]},
            "partition 1g.10gb",
        ),
    ],
)
def test_a_claim_that_one_container_uses_is_read(request_: dict[str, Any], share: str) -> None:
    claims, pod = ResourceClaims.from_documents([template(request_)]), user("c")
    found = understand_document(pod, claims=claims)
    assert [str(one.ask) for one in found[0].claim.containers] == [share]
    new = rewrite_document(pod, found)
    assert "resourceClaims" not in new["spec"]
    assert "claims" not in new["spec"]["containers"][0]["resources"]
    assert [str(one.ask) for one in understand_pod(new, strict=True).containers] == [share]
    assert understand_document(new)[0].claim.unread == ()


@pytest.mark.parametrize(
    ("document", "pod", "why"),
    [
        (template(WHOLE), user("a", "b"), "2 containers use it"),
        (template(WHOLE | {"allocationMode": "All"}), user("c"), "allocationMode: All"),
        (
            template(WHOLE | {"selectors": [{"cel": {"expression": "true"}}]}),
            user("c"),
            "a CEL selector",
        ),
        (template(WHOLE | {"adminAccess": True}), user("c"), "`adminAccess` has no equal"),
        (template(WHOLE, config=[{"opaque": {}}]), user("c"), "`config` is its driver's"),
        (
            template({"deviceClassName": "vfio.gpu.nvidia.com"}),
            user("c"),
            "vfio.gpu.nvidia.com is not known",
        ),
        (template({"deviceClassName": "mig.nvidia.com"}), user("c"), "just one profile"),
        (template(WHOLE), user("c", claim="another"), "not in this file"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_the_claims_name(
    document: dict[str, Any], pod: dict[str, Any], why: str
) -> None:
    with pytest.raises(DeviceClaimUnread, match="resource claim gpu") as refused:
        understand_document(pod, claims=ResourceClaims.from_documents([document]))
    assert why in refused.value.message
    assert refused.value.details["path"][:2] == ("spec", "resourceClaims")


def test_a_claim_that_several_pods_use_is_one_card_and_is_refused() -> None:
    claim = {
        "kind": "ResourceClaim",
        "metadata": {"name": "t"},
        "spec": template(WHOLE)["spec"]["spec"],
    }
    pods = [user("c"), user("c")]
    for pod in pods:
        pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "t"}]
    with pytest.raises(DeviceClaimUnread, match="several pods use it"):
        understand_document(pods[0], claims=ResourceClaims.from_documents([claim, *pods]))
    many = of("Deployment", {"replicas": 2, "template": {"spec": pods[0]["spec"]}})
    with pytest.raises(DeviceClaimUnread, match="several pods use it"):
        understand_document(many, claims=ResourceClaims.from_documents([claim, many]))
    assert understand_document(pods[0], claims=ResourceClaims.from_documents([claim, pods[0]]))[
        0
    ].claim.containers


def test_a_claim_to_no_card_is_noted_and_left() -> None:
    pod = user("c")
    pod["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": 1}
    found = understand_document(
        pod,
        claims=ResourceClaims.from_documents([template({"deviceClassName": "netdev.google.com"})]),
    )
    assert "resource claim gpu asks for no card: it is left to its driver" in found[0].claim.notes
    new = rewrite_document(pod, found)
    assert new["spec"]["resourceClaims"] == pod["spec"]["resourceClaims"]
    assert new["spec"]["containers"][0]["resources"] == {
        "claims": [{"name": "gpu"}],
        "limits": {"gpupool.dev/gpus": "1"},
    }


def test_a_channel_between_nodes_is_no_card() -> None:
    domain = {
        "kind": "ComputeDomain",
        "metadata": {"name": "d"},
        "spec": {"channel": {"resourceClaimTemplate": {"name": "t"}}},
    }
    assert (
        understand_document(user("c"), claims=ResourceClaims.from_documents([domain]))[
            0
        ].claim.containers
        == ()
    )
