"""Meters are found by the flows of the port that they limit, as ovs-ofctl prints both."""

from __future__ import annotations

from gpupool.agent.network.limiting.meters import (
    LogicalPort,
    parse_logical_port,
    parse_meters,
    parse_used_meters,
)

#: Printed by ovs-ofctl 3.1.0.
METERS = """OFPST_METER_CONFIG reply (OF1.3) (xid=0x2):
meter=1 kbps burst stats bands=
type=drop rate=104000 burst_size=104000

meter=2 kbps burst stats bands=
type=drop rate=20800 burst_size=20800
"""
PORT = (
    "OFPST_FLOW reply (OF1.3) (xid=0x6):\n"
    " cookie=0xc9c66f5e, duration=68.399s, table=0, n_packets=801754, n_bytes=1163406642, "
    "priority=100,in_port=2 actions=set_field:0x6->reg13,set_field:0x3->reg11,"
    "set_field:0x2->reg12,set_field:0x1->metadata,set_field:0x3->reg14,resubmit(,8)\n"
)
FLOWS = (
    " cookie=0x48b0f56, duration=13.049s, table=18, n_packets=1, n_bytes=2, "
    "priority=1000,reg14=0x3,metadata=0x1 actions=meter:2,resubmit(,19)\n"
    " cookie=0x1, duration=13.049s, table=19, priority=1,metadata=0x1 actions=resubmit(,20)\n"
)


def test_a_meter_has_its_rate() -> None:
    assert parse_meters(METERS) == {1: 104_000, 2: 20_800}
    assert parse_meters("OFPST_METER_CONFIG reply (OF1.3) (xid=0x2):\n") == {}


def test_a_port_has_its_place_in_the_pipeline_and_its_meters() -> None:
    assert parse_logical_port(PORT) == LogicalPort("0x1", "0x3")
    assert parse_logical_port("OFPST_FLOW reply (OF1.3) (xid=0x6):\n") is None
    assert parse_used_meters(FLOWS) == [2]
    assert parse_used_meters(PORT) == []
