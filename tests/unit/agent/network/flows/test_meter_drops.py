"""What the switch says of its meters."""

from __future__ import annotations

from gpupool.agent.network.flows.meter_drops import parse_drops, parse_meter_numbers

#: As OVS 3.1.0 and OVN 23.03.1 wrote them.
STATS = """OFPST_METER reply (OF1.3) (xid=0x2):
meter:1 flow_count:0 packet_in_count:11770 byte_in_count:506657 duration:12.111s bands:
0: packet_count:11694 byte_count:502842
meter:4 flow_count:0 packet_in_count:2 byte_in_count:90 duration:1.1s bands:
0: packet_count:0 byte_count:0
"""


def test_drops_are_found_by_the_number_of_the_meter() -> None:
    assert parse_drops(STATS) == {1: 11694, 4: 0}
    assert parse_drops("") == {}


def test_meters_of_flow_logs_are_found_by_their_names() -> None:
    text = "__string: 2\ngpupool-flows-v-1-denied: 1\ngpupool-flows-v-2-allowed: 4"
    assert parse_meter_numbers(text) == {
        "gpupool-flows-v-1-denied": 1,
        "gpupool-flows-v-2-allowed": 4,
    }
