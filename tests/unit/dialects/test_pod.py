"""A pod as the dialects look at it: words with their places, and wrong kinds refused."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.errors import BadManifest, ForeignValue
from gpupool.dialects.pod import APP, INIT, SIDECAR, PlacedWord, add_path, format_path, read_pod


def pod(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(containers), **spec}}


def test_read_pod_of_nothing_is_an_empty_view() -> None:
    for given in ({}, None, {"metadata": None, "spec": None}):
        view = read_pod(given)
        assert (view.containers, view.annotations, view.scheduler) == ((), {}, None)


def test_containers_are_named_by_kind_and_place() -> None:
    always = {"name": "proxy", "restartPolicy": "Always"}
    view = read_pod(pod({"name": "main"}, {}, initContainers=[always, {"name": "setup"}]))
    assert [(one.name, one.kind) for one in view.containers] == [
        ("main", APP),
        ("container-1", APP),
        ("proxy", SIDECAR),
        ("setup", INIT),
    ]
    assert view.find_container("setup") is view.containers[3]
    assert view.find_container("nobody") is None


def test_resources_are_extended_ones_with_their_place() -> None:
    resources = {"limits": {"cpu": 4, "a/x": 1, "a/y": "0"}, "requests": {"a/x": "1", "a/z": 2}}
    (one,) = read_pod(pod({"name": "m", "resources": resources})).containers
    assert set(one.resources) == {"a/x", "a/y", "a/z"}
    assert one.resources["a/x"].path[-3:] == ("resources", "limits", "a/x")
    assert one.only_requested == ("a/z",)
    assert one.find_resource("a/y") is None
    assert one.asks_for("a/y", "a/z")


def test_request_and_limit_that_differ_are_refused() -> None:
    resources = {"limits": {"a/x": "1Ki"}, "requests": {"a/x": "1024"}}
    assert read_pod(pod({"name": "m", "resources": resources})).containers
    resources["requests"]["a/x"] = "1025"
    with pytest.raises(BadManifest, match="a/x: 1025, but its limit is 1Ki") as caught:
        read_pod(pod({"name": "m", "resources": resources}))
    assert caught.value.details["path"][-2:] == ("requests", "a/x")


def test_two_containers_of_one_name_are_refused() -> None:
    with pytest.raises(BadManifest, match="two containers are called 'm'"):
        read_pod(pod({"name": "m"}, initContainers=[{"name": "m"}]))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([], "the pod should be a mapping, and is list"),
        ({"spec": {"containers": {}}}, "spec.containers should be a list, and is dict"),
        (pod({"env": [7]}), "spec.containers[0].env[0] should be a mapping, and is int"),
        (pod({"resources": {"limits": "x"}}), "spec.containers[0].resources.limits should be"),
    ],
)
def test_value_of_a_wrong_kind_is_refused_with_its_path(given: object, says: str) -> None:
    with pytest.raises(BadManifest) as caught:
        read_pod(given)
    assert caught.value.message.startswith(says)


def test_word_shows_the_beginning_of_a_long_value() -> None:
    assert str(PlacedWord("k", "x" * 61, ())) == f"k: {'x' * 57}..."
    assert str(PlacedWord("k", "x" * 60, ())) == f"k: {'x' * 60}"


def test_add_path_keeps_the_place_that_an_error_has() -> None:
    assert add_path(ForeignValue("a"), ("x",)).details["path"] == ("x",)
    assert add_path(ForeignValue("a", path=("y",)), ("x",)).details["path"] == ("y",)
    assert format_path(("spec", "containers", 0, "name")) == "spec.containers[0].name"
