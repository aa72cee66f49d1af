"""Configuration as statements: whitespace, comments and the order say nothing."""

from __future__ import annotations

from gpupool.network.planes.statements import read_interfaces, read_router


def test_contexts_of_a_router_are_part_of_its_statements() -> None:
    text = """Building configuration...
!
vrf vrf4001
 vni 4001
exit-vrf
!
router bgp 64601 vrf vrf4001
 !
 address-family l2vpn evpn
  rd 10.255.0.1:4001
 exit-address-family
exit
!
end
"""
    assert read_router(text) - {("Building configuration...",)} == {
        ("vrf vrf4001",),
        ("vrf vrf4001", "vni 4001"),
        ("router bgp 64601 vrf vrf4001",),
        ("router bgp 64601 vrf vrf4001", "address-family l2vpn evpn"),
        ("router bgp 64601 vrf vrf4001", "address-family l2vpn evpn", "rd 10.255.0.1:4001"),
    }


def test_each_port_of_a_list_is_a_statement_of_its_own() -> None:
    text = """
# by hand
auto bridge
iface bridge inet manual
\tbridge-ports swp2   swp1   # both
    bridge-vlan-aware yes
auto swp1
iface swp1
    bridge-access 101
source /etc/network/interfaces.d/*
    bridge-access 102
"""
    assert read_interfaces(text) == {
        ("iface bridge", "bridge-ports", "swp1"),
        ("iface bridge", "bridge-ports", "swp2"),
        ("iface bridge", "bridge-vlan-aware yes"),
        ("iface swp1", "bridge-access 101"),
    }
