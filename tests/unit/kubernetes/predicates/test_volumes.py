"""Where a pod's claims let it go."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.kubernetes.predicates.volumes import ANYWHERE, LATER, VolumeIndex, VolumePlacement
from gpupool.kubernetes.resources.node_affinity import has_matching_term

ZONE = "topology.kubernetes.io/zone"
GIB = "1Gi"


@pytest.fixture
def volumes() -> VolumeIndex:
    made = VolumeIndex(lambda: None)
    made.mark_listed()
    return made


def claim(
    name: str = "data", kind: str | None = "fast", volume: str = "", **more: Any
) -> dict[str, Any]:
    notes = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    spec = {
        "storageClassName": kind,
        "volumeName": volume,
        "accessModes": ["ReadWriteOnce"],
        **more,
    }
    spec["resources"] = {"requests": {"storage": GIB}}
    return {
        "metadata": {"name": name, "namespace": "team", "annotations": notes},
        "spec": spec,
        "status": {},
    }


def volume(
    name: str, zone: str = "", kind: str = "fast", size: str = GIB, **more: Any
) -> dict[str, Any]:
    spec = {
        "storageClassName": kind,
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        **more,
    }
    if zone:
        term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    return {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Available"}}


def storage_class(name: str = "fast", binding: str = LATER, **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "provisioner": "example.com/disk",
        "volumeBindingMode": binding,
        **more,
    }


BY_HAND = {"provisioner": "kubernetes.io/no-provisioner"}


def zones(places: VolumePlacement) -> set[str]:
    """Of a, b and c, those whose nodes are admitted."""
    assert not places.waits
    return {
        zone
        for zone in "abc"
        if all(has_matching_term(terms, f"n-{zone}", {ZONE: zone}) for terms in places.terms)
    }


def asked(volumes: VolumeIndex, *names: str) -> VolumePlacement:
    return volumes.placement_of("team", names or ("data",))


def test_nothing_is_said_before_all_is_listed() -> None:
    assert "looked up" in VolumeIndex(lambda: None).placement_of("team", ("data",)).waits


def test_a_bound_volume_binds_the_pod(volumes: VolumeIndex) -> None:
    volumes.note_claim(claim(volume="v"), False)
    assert "bound to v, which does not exist" in asked(volumes).waits
    volumes.note_volume(volume("v", "b"), False)
    assert zones(asked(volumes)) == {"b"}


def test_two_volumes_must_both_be_reached(volumes: VolumeIndex) -> None:
    for name, zone in (("one", "a"), ("two", "b")):
        volumes.note_claim(claim(name, volume=name), False)
        volumes.note_volume(volume(name, zone), False)
    assert zones(asked(volumes, "one", "two")) == set()


def test_a_zone_in_a_volumes_labels_counts(volumes: VolumeIndex) -> None:
    volumes.note_claim(claim(volume="v"), False)
    found = volume("v")
    found["metadata"]["labels"] = {ZONE: "a__c"}
    volumes.note_volume(found, False)
    assert zones(asked(volumes)) == {"a", "c"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"status": {"phase": "Lost"}}, "has lost its volume"),
        ({"deletionTimestamp": "2026-11-22T00:00:00Z"}, "is being deleted"),
    ],
)
def test_a_claim_that_is_going_is_told(
    volumes: VolumeIndex, change: dict[str, Any], words: str
) -> None:
    found = claim(volume="v")
    found["status"] = change.get("status", {})
    found["metadata"] |= {name: value for name, value in change.items() if name != "status"}
    volumes.note_claim(found, False)
    assert words in asked(volumes).waits


def test_a_class_that_makes_volumes_anywhere_or_somewhere(volumes: VolumeIndex) -> None:
    volumes.note_claim(claim(), False)
    volumes.note_class(storage_class(), False)
    assert asked(volumes).terms == (ANYWHERE,)
    zone = [{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}]
    volumes.note_class(storage_class(allowedTopologies=zone), False)
    assert zones(asked(volumes)) == {"b"}


def test_volumes_that_somebody_made_before(volumes: VolumeIndex) -> None:
    volumes.note_claim(claim(), False)
    volumes.note_class(storage_class(**BY_HAND), False)
    assert "no volume of class fast is free" in asked(volumes).waits
    volumes.note_volume(volume("small", "a", size="1Mi"), False)
    volumes.note_volume(volume("else", "a", claimRef={"namespace": "team", "name": "other"}), False)
    volumes.note_volume(volume("slow", "a", kind="slow"), False)
    assert "is free" in asked(volumes).waits
    volumes.note_volume(volume("one", "b"), False)
    volumes.note_volume(volume("two", "c"), False)
    assert zones(asked(volumes)) == {"b", "c"}
    volumes.note_volume(volume("two", "c"), True)
    assert zones(asked(volumes)) == {"b"}


def test_a_claim_without_a_class_has_the_default_one(volumes: VolumeIndex) -> None:
    volumes.note_claim(claim(kind=None), False)
    assert "its class does not wait for a pod" in asked(volumes).waits
    found = storage_class()
    found["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
    volumes.note_class(found, False)
    assert asked(volumes).terms == (ANYWHERE,)


def test_where_a_volume_is_being_made_the_pod_goes(volumes: VolumeIndex) -> None:
    found = claim()
    found["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "n-c"}
    volumes.note_claim(found, False)
    volumes.note_class(storage_class(), False)
    assert zones(asked(volumes)) == {"c"}


def test_a_change_is_told_once() -> None:
    changes: list[int] = []
    volumes = VolumeIndex(lambda: changes.append(1))
    for _ in range(2):
        volumes.note_claim(claim(), False)
    assert len(changes) == 1


@pytest.mark.parametrize("owner", [{"name": "data"}, {"uid": "u"}, {"kind": "x"}])
def test_volume_whose_claim_reference_names_no_claim_serves_nobody(
    volumes: VolumeIndex, owner: dict[str, str]
) -> None:
    """The API server takes such a reference, and kube-scheduler binds no claim to its volume."""
    volumes.note_class(storage_class(provisioner="kubernetes.io/no-provisioner"), False)
    volumes.note_claim(claim(), False)
    volumes.note_volume(volume("kept", claimRef=owner), False)
    assert "no volume of class fast is free" in volumes.placement_of("team", ("data",)).waits
