"""Labels of claims, which keep them on nodes of their tenant's planes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa

from gpupool.allocations.cache import plane_labels
from gpupool.allocations.cache.plane_labels import PlaneLabels
from gpupool.model.claim import (
    NETWORK_LABEL,
    NO_NETWORK_LABEL,
    PLANES_LABEL,
    Shape,
    describe_planes_label,
)
from gpupool.model.gang import GangGroup, GangRole
from gpupool.network.planes.node_gate import NodeGate
from gpupool.scheduling import WaitingClass
from tests.support.gang_builders import gang, group, role
from tests.support.scheduling_builders import shape

OWN = describe_planes_label("acme")
NETWORKED = replace(shape(100), labels=(NETWORK_LABEL,))


def make_labels(monkeypatch: pytest.MonkeyPatch, gate: NodeGate) -> PlaneLabels:
    monkeypatch.setattr(plane_labels, "read_gate", lambda connection: gate)
    labels = PlaneLabels()
    with sa.create_engine("sqlite://").connect() as connection:
        labels.load(connection)
    return labels


def wait(tenant: str, wanted: Shape) -> WaitingClass:
    return WaitingClass(tenant, 0, wanted, ("j-1",), 1, 0)


def test_without_planes_claims_stay_as_they_are() -> None:
    waiting = wait("acme", shape(100))
    assert PlaneLabels().restrict_class(waiting) is waiting
    assert not PlaneLabels().is_used


@pytest.mark.parametrize(
    ("tenant", "wanted", "labels"),
    [
        ("other", shape(100), (PLANES_LABEL,)),
        ("acme", NETWORKED, (NETWORK_LABEL, OWN)),
        ("acme", shape(100), (OWN, NO_NETWORK_LABEL)),
    ],
)
def test_claims_get_the_labels_of_their_tenant(
    monkeypatch: pytest.MonkeyPatch, tenant: str, wanted: Shape, labels: tuple[tuple[str, str], ...]
) -> None:
    gate = NodeGate(frozenset({"acme"}), frozenset({"acme"}), is_closed=True)
    found = make_labels(monkeypatch, gate).restrict_class(wait(tenant, wanted))
    assert found.shape == replace(wanted, labels=labels)


def test_every_role_of_a_gang_gets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = group("inner", role("two", shape(200), 1))
    waiting = gang("g", role("one", shape(100), 1), inner, tenant="acme")
    labels = make_labels(monkeypatch, NodeGate(frozenset({"acme"})))
    found = labels.restrict_class(waiting).gang
    assert found is not None
    one, rest = found.root.parts
    assert isinstance(one, GangRole)
    assert isinstance(rest, GangGroup)
    (two,) = rest.parts
    assert isinstance(two, GangRole)
    assert [part.shape.labels for part in (one, two)] == [(OWN,), (OWN,)]
