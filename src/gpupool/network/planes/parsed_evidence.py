"""Evidence as values: what was reported of each target, read once for an evaluation. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property

from gpupool.network.planes.leaf_configuration import (
    name_interface_file,
    name_router_file,
    read_port_vlans,
)
from gpupool.network.planes.model import Evidence, Leaf, StorageTarget
from gpupool.network.planes.partitions import FILE as PARTITIONS
from gpupool.network.planes.partitions import Partition, read_partitions
from gpupool.network.planes.statements import Statement, read_interfaces, read_router
from gpupool.network.planes.storage_access import AccessList, name_target_file, read_access


class ParsedEvidence:
    """The evidence of one evaluation. Each target is parsed when it is needed first."""

    def __init__(self, evidence: Mapping[str, Evidence]) -> None:
        self._evidence = evidence
        self._vlans: dict[str, Mapping[str, frozenset[int]]] = {}
        self._ports: dict[str, Mapping[int, set[str]]] = {}
        self._access: dict[str, Mapping[str, AccessList]] = {}

    def find_router(self, leaf: Leaf) -> frozenset[Statement] | None:
        """Return what the router of a leaf has; None: it was never reported."""
        one = self._evidence.get(name_router_file(leaf.name))
        return None if one is None else read_router(one.text)

    def find_interfaces(self, leaf: Leaf) -> frozenset[Statement] | None:
        """Return what the interfaces of a leaf have; None: they were never reported."""
        one = self._evidence.get(name_interface_file(leaf.name))
        return None if one is None else read_interfaces(one.text)

    def list_vlans(self, leaf: Leaf, port: str) -> frozenset[int]:
        """List the VLANs of a port."""
        return self._read_vlans(leaf).get(port, frozenset())

    def list_ports(self, leaf: Leaf, vlan: int) -> set[str]:
        """List the ports in a VLAN."""
        if leaf.name not in self._ports:
            found: dict[int, set[str]] = defaultdict(set)
            for port, vlans in self._read_vlans(leaf).items():
                for one in vlans:
                    found[one].add(port)
            self._ports[leaf.name] = dict(found)
        return self._ports[leaf.name].get(vlan, set())

    @cached_property
    def partitions(self) -> tuple[Partition, ...]:
        """Partitions of the subnet manager; none where they were never reported."""
        one = self._evidence.get(PARTITIONS)
        return () if one is None else read_partitions(one.text)

    def find_access(self, target: StorageTarget) -> Mapping[str, AccessList] | None:
        """Return the access lists of a storage target; None: they were never reported."""
        name = name_target_file(target)
        one = self._evidence.get(name)
        if one is None:
            return None
        if name not in self._access:
            self._access[name] = read_access(one.text)
        return self._access[name]

    def _read_vlans(self, leaf: Leaf) -> Mapping[str, frozenset[int]]:
        if leaf.name not in self._vlans:
            self._vlans[leaf.name] = read_port_vlans(
                leaf, self.find_interfaces(leaf) or frozenset()
            )
        return self._vlans[leaf.name]
