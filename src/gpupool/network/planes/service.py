"""Planes as tenants demand them and admins provide them. Thread-safe."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import sqlalchemy as sa

from gpupool.base.errors import NameTaken, NoPermission, StillInUse, UnknownPlane, WrongState
from gpupool.model.tenant import Permission, Principal
from gpupool.network.planes.evaluation import evaluate_planes, list_closed_nodes
from gpupool.network.planes.inventory import parse_inventory
from gpupool.network.planes.inventory_checks import list_findings
from gpupool.network.planes.model import NODE_PLANES, Inventory, Plane, PlaneFacts
from gpupool.network.planes.numbers import choose_numbers
from gpupool.network.planes.reading import (
    describe_planes,
    read_facts,
    read_inventory,
    read_node_names,
)
from gpupool.network.planes.tables import plane_demands, plane_inventory, plane_nodes
from gpupool.store.database import Store, WriteTransaction
from gpupool.tenancy.access import match_visible
from gpupool.tenancy.ending.owners import find_ended_tenants
from gpupool.tenancy.tables import tenants
from gpupool.tenancy.tenants import find_tenant
from gpupool.wire.network.planes import (
    PlaneDemandIn,
    PlaneFinding,
    PlaneInventory,
    PlaneInventoryOut,
    PlaneNodesIn,
    PlaneNodesOut,
    PlaneOut,
)


class PlaneService:
    """Inventory, demands and nodes of planes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        store.commit_steps["planes"] = _delete_of_ended_tenants

    def get_inventory(self) -> PlaneInventoryOut:
        """Return what an admin loaded, with what is wrong with nodes."""
        with self._store.read() as connection:
            return _describe_inventory(connection)

    def put_inventory(self, body: PlaneInventory) -> PlaneInventoryOut:
        """Replace the inventory. What is in force is decided again, from the evidence that is there.

        Raises:
            BadAddress, BadPlaneInventory: it is impossible.
            StillInUse: it lacks a node of a tenant, a number that a tenant has, or what says that a
                node is still in a plane of its last tenant.
        """
        inventory = parse_inventory(body)
        with self._store.write() as write:
            _forget_retired(write)
            _refuse_loss(write.connection, inventory)
            _refuse_opened_nodes(read_facts(write.connection), inventory)
            write.execute(plane_inventory.delete())
            content = body.model_dump(mode="json")
            write.insert(plane_inventory, content=content, loaded_ns=write.now_ns)
            data = {"leaves": len(inventory.leaves), "nodes": len(inventory.nodes)}
            write.event("network.plane_inventory_loaded", "planes", data=data)
            write.announce("fleet")
            out = _describe_inventory(write.connection)
            write.answer(200, out.model_dump(mode="json"))
        return out

    def list_planes(self, caller: Principal, tenant: str | None = None) -> list[PlaneOut]:
        """List the planes that tenants demand: all of them for an admin, else the caller's own."""
        with self._store.read() as connection:
            is_visible = match_visible(caller, plane_demands.c.tenant_id)
            if tenant is not None:
                owner = find_tenant(connection, caller, tenant)
                is_visible = plane_demands.c.tenant_id == owner.id
            return describe_planes(connection, evaluate_planes(read_facts(connection)), is_visible)

    def get_plane(self, caller: Principal, plane: str, tenant: str | None = None) -> PlaneOut:
        """Return a plane with its state on each node. Raises UnknownPlane."""
        with self._store.read() as connection:
            return _find_plane(connection, caller, plane, tenant)

    def demand_plane(
        self, caller: Principal, plane: str, body: PlaneDemandIn, tenant: str | None = None
    ) -> PlaneOut:
        """Demand a plane: from now on the tenant gets a node only where the plane is in force there.

        Running jobs go on. The same again changes nothing.

        Raises:
            NoPermission: numbers are an admin's to choose.
            WrongState: the inventory has nothing of that plane, or not that number.
            NameTaken: another tenant has the number.
            TooManyNetworks: every number is taken.
        """
        wanted = _parse_plane(plane)
        has_numbers = any(number is not None for number in (body.vlan, body.vni, body.pkey))
        if has_numbers and not caller.has_permission(Permission.MANAGE_POOL):
            raise NoPermission("numbers of planes are an admin's to choose", hint="leave them out")
        with self._store.write() as write:
            owner = find_tenant(write.connection, caller, tenant or caller.tenant)
            _forget_retired(write)
            inventory = read_inventory(write.connection)
            _require_inventory(wanted, inventory, owner.name)
            present = write.execute(
                sa.select(plane_demands).where(
                    plane_demands.c.tenant_id == owner.id, plane_demands.c.plane == wanted
                )
            ).one_or_none()
            if present is not None:
                _refuse_other_numbers(present, body)
            else:
                write.insert(
                    plane_demands,
                    tenant_id=owner.id,
                    plane=wanted,
                    created_ns=write.now_ns,
                    **choose_numbers(write.connection, inventory, wanted, body),
                )
                write.event("network.plane_demanded", wanted, tenant_id=owner.id)
                write.announce("fleet")
            out = _find_plane(write.connection, caller, wanted, owner.name)
            write.answer(200, out.model_dump(mode="json"))
        return out

    def release_plane(self, caller: Principal, plane: str, tenant: str | None = None) -> None:
        """End a demand. With the last demand of a plane of nodes the tenant's nodes go back.

        Raises UnknownPlane.
        """
        with self._store.write() as write:
            owner = find_tenant(write.connection, caller, tenant or caller.tenant)
            ours = plane_demands.c.tenant_id == owner.id
            ended = plane_demands.delete().where(ours, plane_demands.c.plane == plane)
            if not write.execute(ended).rowcount:
                raise _refuse_unknown(owner.name, plane)
            left = write.execute(sa.select(plane_demands.c.plane).where(ours)).scalars()
            if not NODE_PLANES.intersection(map(Plane, left)):
                write.execute(plane_nodes.delete().where(plane_nodes.c.tenant_id == owner.id))
            write.event("network.plane_released", plane, tenant_id=owner.id)
            write.announce("fleet")
            write.answer(204, None)

    def get_nodes(self, caller: Principal, tenant: str | None = None) -> PlaneNodesOut:
        """Return the nodes that a tenant alone gets."""
        with self._store.read() as connection:
            owner = find_tenant(connection, caller, tenant or caller.tenant)
            return _describe_nodes(connection, owner.id, owner.name)

    def put_nodes(self, caller: Principal, body: PlaneNodesIn, tenant: str | None) -> PlaneNodesOut:
        """Give nodes to a tenant: these and no others.

        Jobs of other tenants run to their end there; planes of nodes are in force after that.

        Raises:
            WrongState: the tenant demands no plane of nodes, or a node is in no inventory.
            NameTaken: a node is another tenant's.
        """
        names = sorted(set(body.nodes))
        with self._store.write() as write:
            owner = find_tenant(write.connection, caller, tenant or caller.tenant)
            _forget_retired(write)
            ours = plane_demands.c.tenant_id == owner.id
            demands = write.execute(sa.select(plane_demands.c.plane).where(ours)).scalars()
            if names and not NODE_PLANES.intersection(map(Plane, demands)):
                raise WrongState(
                    f"{owner.name} demands no plane of nodes (roce, infiniband, storage)",
                    hint=f"gpupool network plane-demand roce --tenant {owner.name}",
                )
            _refuse_nodes(write.connection, owner.id, names)
            mine = plane_nodes.c.tenant_id == owner.id
            write.execute(plane_nodes.delete().where(mine))
            for name in names:
                write.insert(plane_nodes, tenant_id=owner.id, node=name)
            data = {"nodes": names[:100], "count": len(names)}
            write.event("network.plane_nodes_set", owner.name, tenant_id=owner.id, data=data)
            write.announce("fleet")
            out = _describe_nodes(write.connection, owner.id, owner.name)
            write.answer(200, out.model_dump(mode="json"))
        return out


def _find_plane(
    connection: sa.Connection, caller: Principal, plane: str, tenant: str | None
) -> PlaneOut:
    owner = find_tenant(connection, caller, tenant or caller.tenant)
    ours = sa.and_(plane_demands.c.tenant_id == owner.id, plane_demands.c.plane == plane)
    planes = describe_planes(connection, evaluate_planes(read_facts(connection)), ours)
    if not planes:
        raise _refuse_unknown(owner.name, plane)
    return planes[0]


def _parse_plane(text: str) -> Plane:
    try:
        return Plane(text)
    except ValueError as error:
        planes = ", ".join(Plane)
        raise UnknownPlane(f"no plane {text[:40]!r}", hint=f"the planes are {planes}") from error


def _refuse_unknown(tenant: str, plane: str) -> UnknownPlane:
    return UnknownPlane(
        f"{tenant} demands no plane {plane[:40]!r}", hint="gpupool network plane-list"
    )


def _forget_retired(write: WriteTransaction) -> None:
    """Delete demands of tenants that were deleted, so that their numbers and nodes are free."""
    retired = sa.select(tenants.c.id).where(tenants.c.retired_ns.is_not(None))
    _delete_demands(write, retired)


def _delete_of_ended_tenants(write: WriteTransaction) -> None:
    """Delete the demands of tenants that end in this transaction. Idempotent."""
    ended = find_ended_tenants(write)
    if ended and _delete_demands(write, ended):
        write.announce("fleet")


def _delete_demands(write: WriteTransaction, owners: Sequence[int] | sa.Select[tuple[int]]) -> int:
    deleted = 0
    for table in (plane_demands, plane_nodes):
        deleted += write.execute(table.delete().where(table.c.tenant_id.in_(owners))).rowcount
    return deleted


def _require_inventory(plane: Plane, inventory: Inventory | None, tenant: str) -> None:
    """Raise WrongState for a plane of which the inventory has nothing."""
    lack = ""
    if plane is Plane.ETHERNET:
        return
    if inventory is None:
        lack = "no inventory of planes was loaded"
    elif plane is Plane.ROCE and not inventory.leaves:
        lack = "the inventory of planes has no leaves"
    elif plane is Plane.INFINIBAND and not any(node.guids for node in inventory.nodes):
        lack = "the inventory of planes has no GUIDs"
    elif plane is Plane.MANAGEMENT and not inventory.management:
        lack = "the inventory of planes has no management prefixes"
    elif plane is Plane.STORAGE:
        owners = {one.tenant for target in inventory.targets for one in target.subsystems}
        if tenant not in owners:
            lack = f"no storage target of the inventory has a subsystem of {tenant}"
    if lack:
        raise WrongState(
            f"{tenant} cannot demand {plane}: {lack}",
            hint="an admin loads it: gpupool network plane-inventory FILE",
        )


def _refuse_other_numbers(present: sa.Row[tuple[object, ...]], body: PlaneDemandIn) -> None:
    for column in ("vlan", "vni", "pkey"):
        wanted = getattr(body, column)
        has = getattr(present, column)
        if wanted is not None and wanted != has:
            raise WrongState(
                f"the plane is demanded with {column} {has}, not {wanted}",
                hint="release it first: gpupool network plane-release",
            )


def _refuse_loss(connection: sa.Connection, inventory: Inventory) -> None:
    """Raise StillInUse for an inventory without what tenants have."""
    present = {node.name for node in inventory.nodes}
    given = set(connection.execute(sa.select(plane_nodes.c.node)).scalars())
    lost = [f"node {name}" for name in sorted(given - present)]
    for row in connection.execute(sa.select(plane_demands)):
        numbers = (("VLAN", row.vlan, inventory.vlans), ("VNI", row.vni, inventory.vnis))
        for words, number, possible in (*numbers, ("partition key", row.pkey, inventory.pkeys)):
            if number is not None and number not in possible:
                lost.append(f"{words} {number}")
    if lost:
        raise StillInUse(
            f"tenants have what the inventory lacks: {', '.join(lost[:5])}",
            hint="gpupool network plane-list; release the plane first, or keep it in the file",
            lost=lost,
        )


def _refuse_opened_nodes(facts: PlaneFacts, inventory: Inventory) -> None:
    """Raise StillInUse where nodes are in a plane of their last tenant and that would be lost."""
    after = list_closed_nodes(replace(facts, inventory=inventory))
    lost = [why for node, why in list_closed_nodes(facts).items() if node not in after]
    if lost:
        raise StillInUse(
            f"the inventory would open nodes to other tenants: {', '.join(lost[:5])}",
            hint="first: gpupool network plane-compile, apply the files, plane-report",
            lost=lost,
        )


def _refuse_nodes(connection: sa.Connection, tenant_id: int, names: Collection[str]) -> None:
    inventory = read_inventory(connection)
    present = set() if inventory is None else {node.name for node in inventory.nodes}
    known = read_node_names(connection)
    for name in names:
        if name not in present or name not in known:
            where = "the inventory of planes" if name not in present else "the pool"
            raise WrongState(
                f"{where} has no node {name[:63]!r}",
                hint="gpupool network plane-inventory  and  gpupool gpus  list them",
            )
    others = sa.select(plane_nodes.c.node).where(
        plane_nodes.c.tenant_id != tenant_id, plane_nodes.c.node.in_(names)
    )
    taken = sorted(connection.execute(others).scalars())
    if taken:
        raise NameTaken(
            f"nodes of another tenant: {', '.join(taken[:5])}",
            hint="take them from it first: gpupool network plane-nodes --tenant TENANT",
        )


def _describe_nodes(connection: sa.Connection, tenant_id: int, name: str) -> PlaneNodesOut:
    query = (
        sa.select(plane_nodes.c.node)
        .where(plane_nodes.c.tenant_id == tenant_id)
        .order_by(plane_nodes.c.node)
    )
    return PlaneNodesOut(tenant=name, nodes=list(connection.execute(query).scalars()))


def _describe_inventory(connection: sa.Connection) -> PlaneInventoryOut:
    row = connection.execute(sa.select(plane_inventory)).one_or_none()
    if row is None:
        return PlaneInventoryOut(inventory=None, findings=[], loaded_ns=None)
    content = PlaneInventory.model_validate(row.content)
    findings = list[PlaneFinding]()
    for node, texts in sorted(list_findings(parse_inventory(content)).items()):
        findings += [PlaneFinding(node=node, text=text) for text in texts]
    return PlaneInventoryOut(inventory=content, findings=findings, loaded_ns=row.loaded_ns)
