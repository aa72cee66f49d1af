"""Lines of the controller's log become records of flows."""

from __future__ import annotations

from datetime import UTC, datetime

from gpupool.agent.network.flows.flow_lines import join_lines, parse_line

#: As OVN 23.03.1 wrote them.
REST = (
    "vlan_tci=0x0000,dl_src=0a:00:00:00:00:01,dl_dst=0a:00:00:00:00:02,nw_src=10.0.0.5,"
    "nw_dst=10.0.0.6,nw_tos=0,nw_ecn=0,nw_ttl=64,nw_frag=no"
)


def make_line(rule: str, verdict: str, what: str, at: str = "2026-11-28T20:24:53Z") -> str:
    return (
        f'{at}|00089|acl_log(ovn_pinctrl0)|INFO|name="{rule}", verdict={verdict}, severity=info, '
        f"direction=to-lport: {what}"
    )


SYN = f"tcp,{REST},tp_src=47392,tp_dst=7001,tcp_flags=syn"


def test_a_line_has_the_rule_the_verdict_and_both_ends() -> None:
    found = parse_line(make_line("v-1/g-1/others", "drop", SYN))
    assert found is not None
    at_ns, key = found
    assert at_ns == int(datetime(2026, 11, 28, 20, 24, 53, tzinfo=UTC).timestamp()) * 10**9
    assert (key.rule, key.is_denied, key.protocol) == ("v-1/g-1/others", True, "tcp")
    assert (key.source, key.source_port) == ("10.0.0.5", 47392)
    assert (key.target, key.target_port) == ("10.0.0.6", 7001)


def test_packets_without_ports_and_of_ipv6_are_parsed() -> None:
    ping = parse_line(make_line("v-1/default/v-1", "allow", f"icmp,{REST},icmp_type=8,icmp_code=0"))
    assert ping is not None
    assert (ping[1].protocol, ping[1].target_port, ping[1].is_denied) == ("icmp", None, False)
    six = "tcp6,dl_src=0a:00:00:00:00:01,ipv6_src=fd00::5,ipv6_dst=fd00::6,tp_src=1,tp_dst=2"
    found = parse_line(make_line("v-1/g-1/r-1", "allow", six))
    assert found is not None
    assert (found[1].protocol, found[1].source, found[1].target) == ("tcp", "fd00::5", "fd00::6")


def test_other_lines_are_no_flows() -> None:
    search = "icmp6,dl_src=0a:00:00:00:00:01,ipv6_src=fe80::1,ipv6_dst=ff02::2,icmp_type=133"
    for line in (
        "2026-11-28T20:24:53Z|00196|patch|WARN|Bridge 'br-lines' not found for network 'x'",
        make_line("v-1/default/v-1", "allow", search),
        # A list of another user of the database.
        make_line("mine", "drop", SYN),
        make_line("v-1/g-1/others", "drop", "arp,arp_spa=10.0.0.5"),
        "",
    ):
        assert parse_line(line) is None


def test_packets_of_one_flow_and_rule_become_one_record() -> None:
    later = make_line("v-1/g-1/others", "drop", SYN, at="2026-11-28T20:24:54Z")
    other = make_line("v-1/g-1/r-1", "allow", SYN)
    records = join_lines([make_line("v-1/g-1/others", "drop", SYN), other, later])
    assert [(one.rule, one.packets) for one in records] == [
        ("v-1/g-1/others", 2),
        ("v-1/g-1/r-1", 1),
    ]
    assert records[0].at_ns == records[1].at_ns
