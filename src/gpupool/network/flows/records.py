"""Keeps the records of flows that agents report. Everything runs in the caller's transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from gpupool.network.flows.model import VERDICTS, FlowVerdict
from gpupool.network.flows.reading import MOST_RECORDS
from gpupool.network.flows.tables import flow_logs, flow_records, flow_reports
from gpupool.network.security.tables import security_groups
from gpupool.network.tables import network_ports, networks
from gpupool.store.write_transaction import WriteTransaction
from gpupool.wire.network.flows import FlowRecordReport, FlowReport

#: Logs have times in whole seconds.
_SECOND_NS: Final = 10**9


def apply_flow_reports(write: WriteTransaction, agent: str, reports: Sequence[FlowReport]) -> None:
    """Write the records of an agent's reports to the flow logs that want them.

    Idempotent: a report counts once. Records of networks without a flow log are ignored.
    """
    for report in reports:
        if _note_report(write, agent, report):
            _apply_report(write, report)


def build_topic(log: str) -> tuple[str, str]:
    """Return what waiters for records of a flow log, by its public id, wait for."""
    return ("flow-log", log)


def delete_flow_logs(write: WriteTransaction, network_id: int) -> None:
    """Delete the flow logs of a network that is deleted."""
    ours = sa.select(flow_logs.c.id).where(flow_logs.c.network_id == network_id)
    write.execute(flow_records.delete().where(flow_records.c.flow_log_id.in_(ours)))
    write.execute(flow_logs.delete().where(flow_logs.c.network_id == network_id))


def _note_report(write: WriteTransaction, agent: str, report: FlowReport) -> bool:
    """Note the number of a report; false: it was applied before."""
    ours = flow_reports.c.agent == agent
    last = write.execute(sa.select(flow_reports).where(ours)).one_or_none()
    values = {"run": report.run, "number": report.number}
    if last is None:
        write.execute(flow_reports.insert().values(agent=agent, **values))
        return True
    if last.run == report.run and report.number <= last.number:
        return False
    write.execute(flow_reports.update().where(ours).values(**values))
    return True


def _apply_report(write: WriteTransaction, report: FlowReport) -> None:
    logs = _read_logs(write.connection)
    by_network: dict[str, list[FlowRecordReport]] = defaultdict(list)
    for record in report.records:
        by_network[record.rule.partition("/")[0]].append(record)
    for network, network_logs in logs.items():
        skipped = report.skipped_packets.get(network, 0)
        records = by_network.get(network, [])
        found = _resolve(write.connection, network_logs[0].network_id, records) if records else []
        for log in network_logs:
            ours = [values for values in found if _is_wanted(log, values)]
            _append(write, log, ours, skipped, report.lost_bytes)


def _read_logs(connection: sa.Connection) -> Mapping[str, list[Any]]:
    """Read all flow logs by the public id of their network."""
    query = sa.select(flow_logs, networks.c.public_id.label("network")).join(
        networks, networks.c.id == flow_logs.c.network_id
    )
    logs: dict[str, list[Any]] = defaultdict(list)
    for row in connection.execute(query.order_by(flow_logs.c.id)):
        logs[row.network].append(row)
    return logs


def _resolve(
    connection: sa.Connection, network_id: int, records: Iterable[FlowRecordReport]
) -> list[dict[str, Any]]:
    """Resolve ids and addresses to names, as they are now: addresses are given again later."""
    ports = sa.select(network_ports.c.address, network_ports.c.address6, network_ports.c.name)
    ours = connection.execute(ports.where(network_ports.c.network_id == network_id)).all()
    # A port without IPv6 is found by None, which no record has.
    jobs = {address: row.name for row in ours for address in (row.address, row.address6)}
    query = sa.select(security_groups.c.public_id, security_groups.c.name)
    members = query.where(security_groups.c.network_id == network_id)
    groups = {row.public_id: row.name for row in connection.execute(members)}
    found = list[dict[str, Any]]()
    for record in records:
        _, owner, rule = record.rule.split("/")
        is_default = owner == "default"
        values = record.model_dump(exclude={"rule", "is_denied"})
        values["verdict"] = "denied" if record.is_denied else "allowed"
        values["group"] = None if is_default else groups.get(owner, owner)
        values["rule"] = "default" if is_default else rule
        values["source_job"] = jobs.get(record.source)
        values["target_job"] = jobs.get(record.target)
        found.append(values)
    return found


def _is_wanted(log: Any, values: Mapping[str, Any]) -> bool:
    verdict: FlowVerdict = values["verdict"]
    if verdict not in VERDICTS[log.choice]:
        return False
    if values["at_ns"] < log.created_ns // _SECOND_NS * _SECOND_NS:
        return False
    return log.job is None or log.job in (values["source_job"], values["target_job"])


def _append(
    write: WriteTransaction,
    log: Any,
    found: Sequence[dict[str, Any]],
    skipped_packets: int,
    lost_bytes: int,
) -> None:
    """Append records to a flow log, and delete the oldest above its limit."""
    if not (found or skipped_packets or lost_bytes):
        return
    for values in found[-MOST_RECORDS:]:
        write.execute(flow_records.insert().values(flow_log_id=log.id, **values))
    expired = max(0, len(found) - MOST_RECORDS)
    ours = flow_records.c.flow_log_id == log.id
    oldest = write.execute(
        sa.select(flow_records.c.id)
        .where(ours)
        .order_by(flow_records.c.id.desc())
        .offset(MOST_RECORDS)
        .limit(1)
    ).scalar_one_or_none()
    if oldest is not None:
        old = sa.and_(ours, flow_records.c.id <= oldest)
        expired += write.execute(flow_records.delete().where(old)).rowcount
    changed = {
        "expired_records": flow_logs.c.expired_records + expired,
        "skipped_packets": flow_logs.c.skipped_packets + skipped_packets,
        "lost_bytes": flow_logs.c.lost_bytes + lost_bytes,
    }
    write.execute(flow_logs.update().where(flow_logs.c.id == log.id).values(changed))
    write.announce(build_topic(log.public_id))
