"""What a Tenant's status says of its own spec."""

from __future__ import annotations

from typing import Any

from gpupool.base.errors import InvalidQuotaTree
from gpupool.kubernetes.manifests.crds import crds
from gpupool.kubernetes.status.tenant import condition
from tests.unit.kubernetes.resources.test_gpu_node import check

REFUSAL = InvalidQuotaTree("lab is guaranteed 2 gpu, those in it 4: vision 4")
HOUR = 3600 * 10**9


def test_a_refusal_is_told_with_its_code_and_what_holds_instead() -> None:
    told = condition(REFUSAL, {}, 0)
    assert (told["status"], told["lastTransitionTime"]) == ("False", "1970-01-01T00:00:00Z")
    assert (
        told["message"]
        == "GP-2014: lab is guaranteed 2 gpu, those in it 4: vision 4; what was in force stays"
    )


def test_its_time_is_that_of_the_last_change_and_not_of_the_last_look() -> None:
    status: dict[str, Any] = {"conditions": [condition(None, {}, 0)]}
    assert condition(None, status, HOUR) == status["conditions"][0]
    assert condition(REFUSAL, status, HOUR)["lastTransitionTime"] == "1970-01-01T01:00:00Z"


def test_it_fits_the_definition() -> None:
    schema = crds()[1]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    check([condition(InvalidQuotaTree("x" * 5000), {}, 0)], schema["properties"]["conditions"])
    assert len(condition(InvalidQuotaTree("x" * 5000), {}, 0)["message"]) <= 1024
