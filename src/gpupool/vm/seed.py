"""The seed: a small disk from which cloud-init in the guest reads (datasource NoCloud).

Format: an ISO 9660 file system with the label `cidata` and the files `meta-data`, `user-data` and
`network-config` (cloud-init documentation, "NoCloud"). The files' texts are pure; the disk is
written by a program that every distribution has.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gpupool.base.errors import VmRejection
from gpupool.model.vm import VmSpec
from gpupool.vm.argv import make_mac, make_uuid

LABEL: Final = "cidata"
#: Programs that take the options of mkisofs, and the package to name where all are missing.
_PROGRAMS: Final = ("genisoimage", "xorrisofs", "mkisofs")
_PACKAGE: Final = "genisoimage"
_SECONDS: Final = 60


def build_seed_files(
    job: str, name: str, spec: VmSpec, network_mac: str = "", *, has_ipv6: bool = False
) -> Mapping[str, str]:
    """Build the texts of the seed. YAML includes JSON, so they need no YAML writer.

    Args:
        network_mac: Address of the VM's interface in a tenant's network; empty: it is in none.
        has_ipv6: Whether that network gives it an IPv6 address.
    """
    meta = {
        "instance-id": str(make_uuid(job)),
        "local-hostname": name,
        "public-keys": list(spec.ssh_keys),
    }
    # By address, because the kernel's name of the interface depends on where it is plugged.
    interfaces = {"net0": {"match": {"macaddress": make_mac(job)}, "dhcp4": True}}
    if network_mac:
        interfaces["lan0"] = {"match": {"macaddress": network_mac}, "dhcp4": True}
        if has_ipv6:
            interfaces["lan0"]["dhcp6"] = True
    network = {"version": 2, "ethernets": interfaces}
    return {
        "meta-data": json.dumps(meta, indent=1) + "\n",
        "user-data": spec.cloud_init if spec.cloud_init is not None else "#cloud-config\n{}\n",
        "network-config": json.dumps(network, indent=1) + "\n",
    }


def find_seed_program() -> str:
    """Return the path of the program that writes the disk. Raises VmRejection if none is there."""
    for name in _PROGRAMS:
        path = shutil.which(name)
        if path is not None:
            return path
    raise VmRejection(
        f"none of {', '.join(_PROGRAMS)} is installed on this node: --ssh-key and --cloud-init "
        "need one",
        hint=f"an admin installs it: apt-get install {_PACKAGE}",
    )


def write_seed(path: Path, files: Mapping[str, str], uid: int, gid: int) -> None:
    """Write the disk, readable by one account only. Replaces what is there; idempotent.

    Raises:
        VmRejection: No program that writes it is there, or it failed.
    """
    program = find_seed_program()
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="seed-") as folder:
        sources: list[str] = []
        for name, text in files.items():
            source = Path(folder, name)
            source.write_text(text, encoding="utf-8")
            sources.append(str(source))
        made = Path(folder, "iso")
        done = subprocess.run(
            [program, "-quiet", "-V", LABEL, "-J", "-R", "-o", str(made), *sources],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise VmRejection(f"{program} could not write the seed: {done.stderr.strip()[:300]}")
        made.chmod(0o400)
        os.chown(made, uid, gid)
        os.replace(made, path)
