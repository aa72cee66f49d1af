"""Builds the files of a machine that show planes: adapters for RDMA, VLANs, and NVMe over fabrics.

Recorded of a node with one InfiniBand and one RoCE adapter (mlx5, ConnectX-7) and a bond of two
ports; names and formats are those of the kernel's files that `host_reader` names. The GUIDs and
names are those of `tests/support/planes.py`.
"""

from __future__ import annotations

from pathlib import Path

from tests.support.planes import NQN

FILES: dict[str, str] = {
    "sys/class/infiniband/mlx5_0/ports/1/link_layer": "InfiniBand",
    "sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE",
    "sys/class/infiniband/mlx5_0/ports/1/gids/0": "fe80:0000:0000:0000:0000:0000:0000:0010",
    "sys/class/infiniband/mlx5_0/ports/1/pkeys/0": "0x7fff",
    "sys/class/infiniband/mlx5_0/ports/1/pkeys/1": "0x8010",
    "sys/class/infiniband/mlx5_0/ports/1/pkeys/2": "0x0000",
    # A port without a cable shows nothing.
    "sys/class/infiniband/mlx5_1/ports/1/link_layer": "InfiniBand",
    "sys/class/infiniband/mlx5_1/ports/1/state": "1: DOWN",
    "sys/class/infiniband/mlx5_1/ports/1/gids/0": "fe80:0000:0000:0000:0000:0000:0000:00ff",
    "sys/class/infiniband/mlx5_1/ports/1/pkeys/0": "0xffff",
    "sys/class/infiniband/mlx5_bond_0/ports/1/link_layer": "Ethernet",
    "sys/class/infiniband/mlx5_bond_0/ports/1/state": "4: ACTIVE",
    "sys/class/infiniband/mlx5_bond_0/device/net/eth2/mtu": "9000",
    "sys/class/net/eth2/mtu": "9000",
    "sys/class/net/bond0/mtu": "9000",
    "sys/class/net/vrf4001/mtu": "65575",
    "proc/net/vlan/config": (
        "VLAN Dev name\t | VLAN ID\n"
        "Name-Type: VLAN_NAME_TYPE_RAW_PLUS_VID_NO_PAD\n"
        "bond0.101      | 101  | bond0\n"
        "eth9.7         | 7  | eth9"
    ),
    "etc/nvme/hostnqn": f"{NQN}1",
    "sys/class/nvme/nvme0/transport": "pcie",
    "sys/class/nvme/nvme0/subsysnqn": "nqn.2019-08.org.example:a-disk-of-its-own",
    "sys/class/nvme/nvme1/transport": "rdma",
    "sys/class/nvme/nvme1/subsysnqn": "nqn.2026-01.example:acme",
    "sys/class/nvme/nvme1/hostnqn": f"{NQN}1",
}
LINKS: dict[str, str] = {
    "sys/class/net/eth2/master": "sys/class/net/bond0",
    "sys/class/net/bond0/master": "sys/class/net/vrf4001",
}


def write_host(root: Path) -> None:
    """Write the machine's files below a directory."""
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    for name, target in LINKS.items():
        (root / name).symlink_to(root / target)
