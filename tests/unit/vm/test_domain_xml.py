"""The domain that libvirt is given, and what libvirt itself makes of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gpupool.vm.domain_xml import format_domain
from gpupool.vm.files import VmFiles
from tests.unit.vm.test_files import make_record

FUNCTION = "0000:41:00.1"
MEDIATED = "c0b26072-dd1b-4340-84fe-bf338c510818"
FILES = VmFiles(Path("/state/vms"), "j-1")
#: An account that is not root: libvirt of root wants an account of its own.
NOBODY = 65534


def test_a_card_is_a_host_device_that_libvirt_does_not_give_back() -> None:
    domain = ElementTree.fromstring(format_domain(make_record(devices=(FUNCTION,)), FILES))
    device = domain.find("devices/hostdev")
    assert device is not None
    assert device.get("managed") == "no"
    address = device.find("source/address")
    assert address is not None
    assert dict(address.items()) == {
        "domain": "0x0000", "bus": "0x41", "slot": "0x00", "function": "0x1",
    }  # fmt: skip


def test_an_interface_in_a_network_is_a_tap_that_libvirt_does_not_make() -> None:
    record = make_record(network_mac="06:00:00:00:00:01", tap="gp0123456789", mtu=1442)
    domain = ElementTree.fromstring(format_domain(record, FILES))
    first, second = domain.findall("devices/interface")
    assert (first.get("type"), second.get("type")) == ("ethernet", "user")
    found = {part.tag: dict(part.items()) for part in first}
    assert found == {
        "target": {"dev": "gp0123456789", "managed": "no"},
        "mac": {"address": "06:00:00:00:00:01"},
        "model": {"type": "virtio"},
        "mtu": {"size": "1442"},
    }
    domain = ElementTree.fromstring(format_domain(make_record(), FILES))
    assert len(domain.findall("devices/interface")) == 1


def test_a_kernel_takes_the_place_of_the_boot_disk() -> None:
    record = make_record(image=None, kernel="/vmlinuz", initrd="/initrd", append="a <b> & c")
    text = format_domain(record, FILES)
    system = ElementTree.fromstring(text).find("os")
    assert system is not None
    assert [part.text for part in system] == ["hvm", "/vmlinuz", "/initrd", "a <b> & c"]
    assert "disk" not in text


def test_uefi_is_a_loader_with_variables_beside_the_disk() -> None:
    record = make_record(firmware_code="/fw/OVMF_CODE.fd")
    system = ElementTree.fromstring(format_domain(record, FILES)).find("os")
    assert system is not None
    loader = system.find("loader")
    assert loader is not None
    assert (loader.text, loader.get("type")) == ("/fw/OVMF_CODE.fd", "pflash")
    assert system.findtext("nvram") == "/state/vms/j-1/run/firmware.fd"
    assert "loader" not in format_domain(make_record(), FILES)


def test_hardware_virtualization_is_another_type_of_domain() -> None:
    assert '<domain type="kvm">' in format_domain(make_record(accelerator="kvm"), FILES)
    assert '<domain type="qemu">' in format_domain(make_record(), FILES)


@pytest.mark.root
@pytest.mark.skipif(shutil.which("virsh") is None, reason="apt-get install libvirt-clients")
def test_libvirt_makes_the_same_devices_of_it(tmp_path: Path) -> None:
    record = make_record(devices=(FUNCTION, MEDIATED), bar_bytes=(1 << 38,), seeded=True)
    domain = ElementTree.fromstring(format_domain(record, FILES))
    devices = domain.find("devices")
    assert devices is not None
    network = devices.find("interface")
    assert network is not None
    # libvirt makes a tap device of any network here, which an ordinary account may not.
    devices.remove(network)
    home = Path("/tmp") / f"gpupool-virsh-{os.getpid()}"
    home.mkdir()
    try:
        (home / "domain.xml").write_bytes(ElementTree.tostring(domain))
        os.chown(home, NOBODY, NOBODY)
        done = subprocess.run(
            ["virsh", "-c", f"qemu:///embed?root={home}/root",
             "domxml-to-native", "qemu-argv", f"{home}/domain.xml"],
            env={"PATH": os.environ["PATH"], "HOME": str(home), "XDG_RUNTIME_DIR": str(home)},
            user=NOBODY, group=NOBODY, extra_groups=[],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    finally:
        shutil.rmtree(home)
    if "failed to connect" in done.stderr:
        pytest.skip(f"libvirt has no QEMU driver: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    assert f'"driver":"vfio-pci","host":"{FUNCTION}"' in done.stdout
    assert f'"sysfsdev":"/sys/bus/mdev/devices/{MEDIATED}"' in done.stdout
    assert f"q35-pcihost.pci-hole64-size={(1 << 39) >> 10}K" in done.stdout
    assert f"-uuid {domain.findtext('uuid')}" in done.stdout
    assert "mem-merge=off" in done.stdout
    assert "dump-guest-core=off" in done.stdout


def test_memory_is_shared_with_no_guest_and_written_into_no_dump() -> None:
    domain = ElementTree.fromstring(format_domain(make_record(), FILES))
    memory = domain.find("memory")
    assert memory is not None
    assert memory.get("dumpCore") == "off"
    assert domain.find("memoryBacking/nosharepages") is not None
