"""Partitions of InfiniBand: what is compiled, and what of a file or a port is accepted."""

from __future__ import annotations

import pytest

from gpupool.network.planes.model import Plane, PlaneDemand
from gpupool.network.planes.partitions import (
    compile_partitions,
    find_key_fault,
    find_partition_fault,
    read_partitions,
    read_port_keys,
)
from tests.support.planes import make_facts, make_inventory

INVENTORY = make_inventory()
NODE = INVENTORY.nodes[0]
ACME = PlaneDemand("acme", Plane.INFINIBAND, pkey=0x10)
OTHER = PlaneDemand("other", Plane.INFINIBAND, pkey=0x11)
FACTS = make_facts((ACME, OTHER), {"node-1": "acme", "node-2": "other"})
DEFAULT = "Default=0x7fff : ALL=limited, SELF=full ;\n"
OWN = "acme=0x10 : 0x10=full, 0x11=full ;\n"


def find_fault(text: str) -> str:
    return find_partition_fault(NODE, ACME, NODE.guids, read_partitions(text))


def test_the_ports_of_each_tenant_are_a_partition() -> None:
    text = compile_partitions(FACTS)
    assert text.splitlines()[1:] == [
        "Default=0x7fff : ALL=limited, SELF=full ;",
        "acme=0x0010 : 0x0000000000000010=full, 0x0000000000000011=full ;",
        "other=0x0011 : 0x0000000000000020=full, 0x0000000000000021=full ;",
    ]
    assert find_fault(text) == ""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (DEFAULT + OWN, ""),
        ("# none\n" + DEFAULT + "acme=0x8010, defmember=full : 0x10, 17 ;", ""),
        (DEFAULT + "acme=0x10 : defmember=full : 0x10 , 0x11 = both ;", ""),
        (DEFAULT + "acme=0x10 : 0x10=full, 0x11=limited ;", "lacks 0x0000000000000011 as a full"),
        (DEFAULT + "acme=0x10 : 0x10, 0x11 ;", "lacks 0x0000000000000010 as a full member"),
        (DEFAULT, "lacks 0x0000000000000010"),
        (DEFAULT + OWN + "acme=0x10 : 0x20 ;", "has 0x0000000000000020 in partition 0x0010 of"),
        (DEFAULT + OWN + "acme=0x10 : ALL_CAS ;", "has every port in partition 0x0010 of acme"),
        (DEFAULT + OWN + "b=0x11 : 0x10 ;", "has 0x0000000000000010 in partition 0x0011 too"),
        (DEFAULT + OWN + "b=0x300 : ALL ;", "has every port in partition 0x0300 too"),
        (DEFAULT + OWN + "b : 0x11=full ;", "in a partition without a key too"),
        # As strtoul(3), which opensm reads numbers with: 020 and 021 are octal.
        (DEFAULT + "acme=020 : 020=full, 021=full ;", ""),
        (DEFAULT + OWN + "b=09 : 0x11=full ;", "in a partition without a key too"),
        (DEFAULT + OWN + "b=0x11 : 0x20host, 08 ;", ""),
        ("Default=0x7fff,ipoib:ALL=full;" + OWN, "every port as a full member of the default"),
        ("Default, defmember=full : ALL ;" + OWN, "every port as a full member of the default"),
        (
            "Default=0x7fff:\n mgid=ff12::1,sl=1 # note\n ALL=full;" + OWN,
            "every port as a full member of the default",
        ),
        (
            DEFAULT + OWN + "Default=0x7fff : 0x10=full ;",
            "has 0x0000000000000010 in partition 0x7f",
        ),
        (DEFAULT + OWN + "Default=0x7fff : 0x10=limited ;", ""),
    ],
)
def test_a_file_is_accepted_only_where_ports_are_in_their_own_partition_alone(
    text: str, fault: str
) -> None:
    found = find_fault(text)
    assert (fault in found) if fault else found == ""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("0x7fff\n0x8010\n0x0000\n", ""),
        ("   0: 0x7fff 0x8010 0x0000 0x0000\n   8: 0x0000 0x0000\n", ""),
        ("0x7fff\n0x8011\n", "lack 0x8010"),
        ("0x7fff\n0x8010\n0x8011\n", "have 0x8011 too"),
        ("0xffff\n0x8010\n", "are full members of the default partition"),
    ],
)
def test_keys_of_ports_are_accepted_only_where_they_are_their_tenants(
    text: str, fault: str
) -> None:
    found = find_key_fault(ACME, read_port_keys(text))
    assert (fault in found) if fault else found == ""


def test_text_without_a_key_is_refused() -> None:
    with pytest.raises(ValueError, match="no partition key"):
        read_port_keys("ibwarn: no such device")
