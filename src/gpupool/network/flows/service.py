"""Flow logs as the owners of their networks see them. Thread-safe."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import NameTaken, TooManyNetworks, UnknownNetwork
from gpupool.base.ids import check_name, new_id
from gpupool.model.tenant import Principal
from gpupool.network.engine_row import renew_machines
from gpupool.network.flows.reading import describe_logs, describe_record
from gpupool.network.flows.tables import flow_logs, flow_records
from gpupool.network.lookup import FindNetwork
from gpupool.network.model import make_dns_name
from gpupool.store.database import Store, WriteTransaction
from gpupool.wire.network.flows import FlowLogIn, FlowLogOut, FlowRecordsOut

#: Flow logs of one network, at most.
MOST_FLOW_LOGS = 8


class FlowLogService:
    """Flow logs of networks and their records."""

    def __init__(self, store: Store, find_network: FindNetwork) -> None:
        self._store = store
        self._find_network = find_network

    def list_logs(
        self, caller: Principal, name: str, tenant: str | None = None
    ) -> list[FlowLogOut]:
        """List the flow logs of a network by name. Raises UnknownNetwork."""
        with self._store.read() as connection:
            return describe_logs(connection, self._find_network(connection, caller, name, tenant))

    def create_log(
        self, caller: Principal, name: str, body: FlowLogIn, tenant: str | None = None
    ) -> FlowLogOut:
        """Log the flows of a network from now on.

        Raises:
            UnknownNetwork: there is no such network.
            NameTaken: the network has a flow log of that name.
            TooManyNetworks: the network has as many as it may.
        """
        check_name(body.name, "name of a flow log")
        with self._store.write() as write:
            network = self._find_network(write.connection, caller, name, tenant)
            present = describe_logs(write.connection, network)
            _check_new(network, body.name, present)
            write.insert(
                flow_logs,
                public_id=new_id("f"),
                network_id=network.id,
                name=body.name,
                choice=body.choice,
                job=None if body.job is None else make_dns_name(body.job),
                expired_records=0,
                skipped_packets=0,
                lost_bytes=0,
                created_ns=write.now_ns,
            )
            _finish(write, "created", network, body.name)
            shown = describe_logs(write.connection, network)
            out = next(one for one in shown if one.name == body.name)
            write.answer(201, out.model_dump(mode="json"))
        return out

    def delete_log(self, caller: Principal, name: str, log: str, tenant: str | None = None) -> None:
        """Delete a flow log with its records. Raises UnknownNetwork."""
        with self._store.write() as write:
            network = self._find_network(write.connection, caller, name, tenant)
            row = _find_log(write.connection, network, log)
            write.execute(flow_records.delete().where(flow_records.c.flow_log_id == row.id))
            write.execute(flow_logs.delete().where(flow_logs.c.id == row.id))
            _finish(write, "deleted", network, row.name)
            write.answer(204, None)

    def find_log(self, caller: Principal, name: str, log: str, tenant: str | None = None) -> str:
        """Find the public id of a flow log by its name or id. Raises UnknownNetwork."""
        with self._store.read() as connection:
            network = self._find_network(connection, caller, name, tenant)
            return str(_find_log(connection, network, log).public_id)

    def read_records(
        self,
        caller: Principal,
        name: str,
        log: str,
        tenant: str | None = None,
        *,
        after: int | None = None,
        limit: int = 100,
    ) -> FlowRecordsOut:
        """Read records of a flow log, the oldest first. Raises UnknownNetwork.

        Args:
            after: cursor; None: the last ones.
        """
        with self._store.read() as connection:
            network = self._find_network(connection, caller, name, tenant)
            row = _find_log(connection, network, log)
            query = sa.select(flow_records).where(flow_records.c.flow_log_id == row.id)
            if after is None:
                newest = query.order_by(flow_records.c.id.desc()).limit(limit)
                found = list(reversed(connection.execute(newest).all()))
            else:
                later = query.where(flow_records.c.id > after).order_by(flow_records.c.id)
                found = list(connection.execute(later.limit(limit)))
        end = found[-1].id if found else after or 0
        return FlowRecordsOut(records=[describe_record(one) for one in found], next=end)


def _check_new(network: Any, name: str, present: list[FlowLogOut]) -> None:
    hint = f"gpupool network flowlog-list {network.name}"
    if name in [one.name for one in present]:
        raise NameTaken(f"network {network.name} already has a flow log {name!r}", hint=hint)
    if len(present) >= MOST_FLOW_LOGS:
        raise TooManyNetworks(
            f"network {network.name} has {len(present)} flow logs; {MOST_FLOW_LOGS} is the most",
            hint=hint,
            limit=MOST_FLOW_LOGS,
        )


def _find_log(connection: sa.Connection, network: Any, log: str) -> Any:
    named = sa.or_(flow_logs.c.name == log, flow_logs.c.public_id == log)
    query = sa.select(flow_logs).where(flow_logs.c.network_id == network.id, named)
    row = connection.execute(query).first()
    if row is None:
        raise UnknownNetwork(
            f"network {network.name} has no flow log {log[:80]!r}",
            hint=f"gpupool network flowlog-list {network.name}",
        )
    return row


def _finish(write: WriteTransaction, what: str, network: Any, log: str) -> None:
    data = {"network": network.public_id, "flow_log": log}
    write.event(f"network.flow_log_{what}", network.name, tenant_id=network.tenant_id, data=data)
    write.announce(("network", network.id))
    # Agents read their logs while some network wants it.
    renew_machines(write)
