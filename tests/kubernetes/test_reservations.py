"""Reservations on a real control plane: kept for whom they are, refused with numbers, and found
again later."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.kubernetes.resources import names
from gpupool.kubernetes.status.reservations import RESERVATIONS
from tests.support.cluster.api import Api, Object, RefusedError
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.pods import is_bound
from tests.support.cluster_pool import ClusterPool, fresh
from tests.support.kube_builders import asking, gang, pod

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "kubernetes-reservations.md"
WHOLE = {"main": asking(1, 1000, None)}
CARDS = 4


@pytest.fixture(scope="module")
def pool(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPool]:
    with ClusterPool(cluster, tmp_path_factory.mktemp("kept")) as made:
        made.adopt(cluster.simulate_nodes(1, prefix="kept"), CARDS)
        made.start()
        yield made


@pytest.fixture(autouse=True)
def _nothing_is_left(pool: ClusterPool, pods_path: str) -> Iterator[None]:
    yield
    pool.admin.delete(RESERVATIONS)
    pool.clear(pods_path)


def space(pods_path: str) -> str:
    return pods_path.split("/")[4]


def in_hours(hours: float) -> str:
    return (datetime.now(UTC) + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")


def reserve(admin: Api, name: str, tenant: str, **spec: Any) -> Object:
    made = {"apiVersion": names.API_VERSION, "kind": "Reservation", "metadata": {"name": name}}
    return admin.create(RESERVATIONS, {**made, "spec": {"tenant": tenant, **spec}})


def until_state(admin: Api, name: str, state: str) -> Object:
    return admin.until(
        f"{RESERVATIONS}/{name}", lambda one: one.get("status", {}).get("state") == state
    )["status"]


def accepted(status: Object) -> str:
    (one,) = [c for c in status["conditions"] if c["type"] == "Accepted"]
    return str(one["message"])


def create(admin: Api, pods_path: str, name: str, reservation: str = "", **more: Any) -> None:
    made = fresh(pod(name, WHOLE, namespace=space(pods_path), **more))
    if (
        reservation
    ):  # it ends in time: who waits since before may have been promised the reservation's end
        made["spec"]["activeDeadlineSeconds"] = 600
        made["metadata"]["labels"][names.RESERVATION] = reservation
    admin.create(pods_path, made)


def message(found: Object) -> str:
    (one,) = [c for c in found["status"].get("conditions", ()) if c["type"] == "PodScheduled"]
    return str(one.get("message", ""))


def test_what_is_kept_is_nobody_elses_and_a_pod_that_names_it_has_it(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    reserve(admin, "demo", space(pods_path), gpus=1, replicas=3, duration="4h")
    status = until_state(admin, "demo", "Active")
    assert status["share"] == "3 × [1.00 GPU (100 % compute) + its part of the memory]"
    create(admin, pods_path, "free")
    admin.until(f"{pods_path}/free", is_bound)
    create(admin, pods_path, "late")
    admin.until(f"{pods_path}/late", lambda one: "kept for reservation demo" in message(one))
    create(admin, pods_path, "named", "demo")
    admin.until(f"{pods_path}/named", is_bound)
    pool.kill()
    pool.start()
    for n in range(2):
        create(admin, pods_path, f"w-{n}", "demo", gang=gang(2))
    for n in range(2):
        admin.until(f"{pods_path}/w-{n}", is_bound)
    assert not is_bound(admin.get(f"{pods_path}/late"))
    admin.delete(f"{pods_path}/named?gracePeriodSeconds=0")
    pool.until(lambda: sum(map(len, pool.entries().values())) == 3, "its card is free")
    assert not is_bound(admin.get(f"{pods_path}/late"))
    admin.delete(f"{RESERVATIONS}/demo")
    admin.until(f"{pods_path}/late", is_bound)


def test_another_tenants_reservation_helps_nobody(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    reserve(admin, "theirs", "somebody-else", gpus=4, duration="4h")
    until_state(admin, "theirs", "Active")
    create(admin, pods_path, "mine", "theirs")
    admin.until(f"{pods_path}/mine", lambda one: "a reservation of another tenant" in message(one))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"start": "2026-01-01T00:00:00Z"}, "GP-1004: the start 2026-01-01"),
        ({"gpus": 8}, "GP-2004"),
        ({"gpus": 1, "replicas": 5}, "the whole pool, with nothing running, has room for 4"),
        ({"duration": "4h", "every": "1h"}, "it would meet itself"),
        ({"model": "H900"}, "H900"),
    ],
)
def test_what_cannot_be_is_refused_with_the_numbers(
    pool: ClusterPool, admin: Api, pods_path: str, spec: dict[str, Any], words: str
) -> None:
    reserve(admin, "never", space(pods_path), **spec)
    assert words in accepted(until_state(admin, "never", "Refused"))


def test_of_two_that_collide_the_first_has_it_until_it_is_gone(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    times = {"start": in_hours(10), "end": in_hours(12)}
    reserve(admin, "first", space(pods_path), gpus=3, **times)
    until_state(admin, "first", "Planned")
    reserve(admin, "second", space(pods_path), gpus=2, **times)
    said = accepted(until_state(admin, "second", "Refused"))
    assert "GP-2003: collides with reservation first: needs 2 × [1.00 GPU" in said
    assert "there is room for 0 from" in said
    reserve(admin, "later", space(pods_path), gpus=2, start=in_hours(12), duration="1h")
    until_state(admin, "later", "Planned")
    admin.delete(f"{RESERVATIONS}/first")
    until_state(admin, "second", "Planned")


def test_the_api_server_refuses_what_makes_no_sense(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    for spec in (
        {"end": in_hours(1), "duration": "1h"},
        {"every": "1d"},
        {"until": in_hours(1)},
        {"duration": "soon"},
    ):
        with pytest.raises(RefusedError, match=r"GP-1005|duration"):
            reserve(admin, "odd", space(pods_path), **spec)
    reserve(admin, "demo", space(pods_path), duration="1h")
    with pytest.raises(RefusedError, match="delete it and make another"):
        admin.merge(f"{RESERVATIONS}/demo", {"spec": {"gpus": 2}})


def test_the_page_says_what_works(pool: ClusterPool, admin: Api, pods_path: str) -> None:
    blocks = PAGE.read_text().split("```yaml\n")[1:]
    made = [one for block in blocks for one in yaml.safe_load_all(block.split("```")[0])]
    assert [one["kind"] for one in made] == ["Reservation", "Reservation", "Pod"]
    for one in made[:2]:
        admin.create(RESERVATIONS, one)
    assert (
        until_state(admin, "demo", "Active")["share"]
        == "2 × [1.00 GPU (100 % compute) + its part of the memory]"
    )
    status = until_state(admin, "nightly", "Planned")
    assert (status["share"], status["start"], status["end"]) == (
        "2 × [0.30 GPU (30 % compute) + 8192 MiB]",
        "2035-12-01T22:00:00Z",
        "2035-12-02T04:00:00Z",
    )
    assert made[2]["metadata"]["labels"] == {names.RESERVATION: "demo"}
    crd = admin.get(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/reservations.gpupool.dev"
    )
    every = crd["spec"]["versions"][0]["additionalPrinterColumns"]
    columns = [one["name"].upper() for one in every if not one.get("priority")]
    (shown,) = [line.split() for line in PAGE.read_text().splitlines() if line.startswith("NAME ")]
    assert shown == ["NAME", *columns]
