"""One write wins: a ledger object for each node is changed by naming the generation that was
read."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from gpupool.kubernetes.resources.managed_fields import FORGOTTEN
from tests.support.cluster.api import Api, Object, RefusedError
from tests.support.cluster.cluster import Cluster

GROUP = "tests.gpupool.dev"
LEDGERS = f"/apis/{GROUP}/v1/ledgers"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
INVALID = 422
WRITERS = 8
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@pytest.fixture(scope="module")
def definition(cluster: Cluster) -> Iterator[None]:
    """A cluster-wide kind with a spec and, apart from it, a status."""
    schema = {"type": "object", "properties": {"spec": ANYTHING, "status": ANYTHING}}
    served = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "ledgers", "singular": "ledger", "kind": "Ledger", "listKind": "LedgerList"}
    spec = {
        "group": GROUP,
        "scope": "Cluster",
        "names": names,
        "versions": [{**served, "subresources": {"status": {}}}],
    }
    admin = cluster.admin()
    metadata = {"name": f"ledgers.{GROUP}"}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    admin.create(DEFINITIONS, {**kind, "metadata": metadata, "spec": spec})
    admin.until(f"{DEFINITIONS}/{metadata['name']}", _is_established)
    admin.until(LEDGERS, bool)
    yield
    admin.delete(f"{DEFINITIONS}/{metadata['name']}")


def _is_established(found: Object) -> bool:
    return any(
        c["type"] == "Established" and c["status"] == "True"
        for c in found["status"].get("conditions") or ()
    )


@pytest.fixture
def ledger(admin: Api, definition: None) -> Iterator[str]:
    body = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Ledger",
        "metadata": {"name": "node-1"},
        "spec": {"entries": []},
    }
    admin.create(LEDGERS, body)
    yield f"{LEDGERS}/node-1"
    admin.delete(f"{LEDGERS}/node-1")


def _append(api: Api, path: str, generation: int, entry: str) -> Object:
    test = {"op": "test", "path": "/metadata/generation", "value": generation}
    return api.json_patch(path, [test, {"op": "add", "path": "/spec/entries/-", "value": entry}])


def test_of_two_writers_that_read_the_same_generation_one_wins(admin: Api, ledger: str) -> None:
    generation = admin.get(ledger)["metadata"]["generation"]
    assert _append(admin, ledger, generation, "first")["metadata"]["generation"] == generation + 1
    with pytest.raises(RefusedError, match="the server rejected our request") as refusal:
        _append(admin, ledger, generation, "second")
    assert refusal.value.status == INVALID
    assert admin.get(ledger)["spec"]["entries"] == ["first"]


def test_a_status_does_not_make_a_new_generation(admin: Api, ledger: str) -> None:
    """An agent reports all the time, and the one who places need not read again for it."""
    before = admin.get(ledger)["metadata"]
    reported = admin.merge(f"{ledger}/status", {"status": {"cards": 8}})["metadata"]
    assert reported["resourceVersion"] != before["resourceVersion"]
    assert _append(admin, ledger, before["generation"], "placed")["spec"]["entries"] == ["placed"]


def test_who_wrote_which_field_once_forgotten_is_not_kept_by_later_writes(
    admin: Api, ledger: str
) -> None:
    """The controller's first write of a ledger forgets it; what agents report afterwards costs less
    for it."""
    assert admin.get(ledger)["metadata"]["managedFields"]
    admin.json_patch(ledger, [{"op": "add", "path": "/metadata/managedFields", "value": FORGOTTEN}])
    _append(admin, ledger, admin.get(ledger)["metadata"]["generation"], "placed")
    admin.merge(f"{ledger}/status", {"status": {"cards": 8}})
    assert "managedFields" not in admin.get(ledger)["metadata"]


def test_a_status_cannot_change_the_spec(admin: Api, ledger: str) -> None:
    found = admin.merge(
        f"{ledger}/status", {"spec": {"entries": ["forged"]}, "status": {"cards": 8}}
    )
    assert (found["spec"]["entries"], found["status"]["cards"]) == ([], 8)


def test_writers_at_once_lose_nothing_and_write_nothing_twice(
    cluster: Cluster, ledger: str
) -> None:
    def write_once(writer: int) -> int:
        api, refused = cluster.admin(), 0
        while True:
            try:
                _append(api, ledger, api.get(ledger)["metadata"]["generation"], f"writer {writer}")
                api.close()
                return refused
            except RefusedError as refusal:
                assert refusal.status == INVALID
                refused += 1

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write_once, range(WRITERS)))
    found = cluster.admin().get(ledger)
    assert sorted(found["spec"]["entries"]) == [f"writer {writer}" for writer in range(WRITERS)]
    assert found["metadata"]["generation"] == 1 + WRITERS
