"""Reports that wait for the server have a limit, and what it costs is counted."""

from __future__ import annotations

import pytest

from gpupool.agent.network.flows import flow_reports as module
from gpupool.agent.network.flows.flow_reports import join_reports
from gpupool.wire.network.flows import FlowRecordReport, FlowReport


def make_report(number: int, packets: int) -> FlowReport:
    record = FlowRecordReport(
        at_ns=0,
        rule="v-1/g-1/others",
        is_denied=True,
        protocol="tcp",
        source="10.0.0.5",
        target="10.0.0.6",
        packets=packets,
    )
    return FlowReport(
        run="a", number=number, records=[record, record], skipped_packets={"v-2": 1}, lost_bytes=3
    )


def test_the_oldest_records_become_skipped_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 4)
    reports = [make_report(number, 10 * number) for number in (1, 2, 3, 4)]
    assert join_reports(reports[:2]) == reports[:2]
    third, fourth = join_reports(reports)
    assert fourth == reports[3]
    assert (third.number, third.records) == (3, reports[2].records)
    assert third.skipped_packets == {"v-1": 2 * 10 + 2 * 20, "v-2": 3}
    assert third.lost_bytes == 9
