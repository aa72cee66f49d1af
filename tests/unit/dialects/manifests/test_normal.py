"""The normal form as plain data, and read back from a stored pod with suspicion."""

from __future__ import annotations

import json

import pytest

from gpupool.base.errors import PodRejection
from gpupool.dialects.kubernetes import native
from gpupool.dialects.manifests.normal import build_document, read_admitted
from gpupool.dialects.manifests.writing import write_admitted
from tests.unit.dialects.pods import claim_of, pod

HAMI = {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 8192, "nvidia.com/gpucores": 30, "cpu": "4"}


def test_the_claim_reads_back_and_an_altered_one_is_refused() -> None:
    given = pod(
        HAMI, {"gpupool.dev/topology": "rack"}, {"gpupool.dev/queue": "q", "gpupool.dev/gang": "g"}
    )
    claim = claim_of(given)
    new = write_admitted(given, claim)
    back = read_admitted(new)
    assert (back.hints, [one.ask for one in back.containers]) == (
        claim.hints,
        [one.ask.without_remarks for one in claim.containers],
    )
    text = new["metadata"]["annotations"][native.CLAIM]
    for old, forged in (
        ('"gpu_milli":300', '"gpu_milli":900'),
        ('"count":2', '"count":4'),
        ("burst", "best-effort"),
    ):
        assert old in text
        new["metadata"]["annotations"][native.CLAIM] = text.replace(old, forged)
        with pytest.raises(PodRejection, match="was admitted with"):
            read_admitted(new)


def test_a_claim_for_other_containers_than_have_slots_is_refused() -> None:
    given = pod(HAMI)
    new = write_admitted(given, claim_of(given))
    new["spec"]["containers"].append(
        {"name": "b", "resources": {"limits": {"gpupool.dev/slot": "1"}}}
    )
    with pytest.raises(PodRejection, match="is of other containers than those that ask: main, b"):
        read_admitted(new)


def test_a_container_that_asks_for_more_after_admission_is_refused() -> None:
    given = pod(HAMI)
    new = write_admitted(given, claim_of(given))
    new["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 1
    with pytest.raises(
        PodRejection, match=r"container main asks for .*nvidia\.com/gpu beside what was admitted"
    ):
        read_admitted(new)


def test_the_document_is_plain_data() -> None:
    told = build_document(claim_of(pod(HAMI, {"gpupool.dev/topology": "rack"})))
    assert json.loads(json.dumps(told)) == told
    assert told["containers"][0]["share"] == "2 × [0.30 GPU (30 % compute) + 8192 MiB]"
    assert told["pod"] == {"within": {"required": "rack"}}


def test_needs_read_back_as_they_were_written() -> None:
    notes = {"gpupool.dev/isolation": "soft", "gpupool.dev/goal": "latency"}
    given = pod({"gpupool.dev/gpu-milli": 300}, notes)
    claim = claim_of(given)
    written = write_admitted(given, claim)
    assert read_admitted(written).hints.needs == claim.hints.needs
    assert notes.items() <= written["metadata"]["annotations"].items()
    again = build_document(claim)["pod"]["needs"]
    assert again == {"isolation": "soft", "goal": "latency"}
