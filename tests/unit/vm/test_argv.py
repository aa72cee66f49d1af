"""The command of QEMU that a specification becomes."""

from __future__ import annotations

from gpupool.mechanisms.contract import PciFunction
from gpupool.model.vm import GIB, MIB, VmSpec
from gpupool.vm.argv import (
    NetworkInterface,
    VmHardware,
    build_arguments,
    build_command,
    make_mac,
    make_uuid,
)

JOB = "j-abcdefghij"
DISK_VM = VmSpec(cpus=4, ram_bytes=8 * GIB, image="/images/debian.qcow2")
TCG = VmHardware("tcg")


def arguments(spec: VmSpec = DISK_VM, hardware: VmHardware = TCG, name: str = "dev") -> list[str]:
    return list(build_arguments(JOB, name, spec, hardware))


def values(words: list[str], option: str) -> list[str]:
    """Every value of an option."""
    return [words[number + 1] for number, word in enumerate(words) if word == option]


def test_the_whole_command_of_an_emulated_vm() -> None:
    assert arguments() == [
        *("qemu-system-x86_64", "-name", "guest=dev,process=dev"),
        *("-uuid", str(make_uuid(JOB)), "-no-user-config", "-nodefaults"),
        *("-display", "none", "-rtc", "base=utc"),
        *(
            "-machine",
            "q35,mem-merge=off,dump-guest-core=off",
            "-accel",
            "tcg,tb-size=128",
            "-cpu",
            "max",
        ),
        *("-smp", "4", "-m", "8192M"),
        "-sandbox",
        "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
        *("-add-fd", "fd=3,set=3,opaque=log"),
        *("-qmp", "unix:monitor,server=on,wait=off"),
        *("-qmp", "unix:control,server=on,wait=off"),
        "-chardev",
        "socket,id=serial0,path=console,server=on,wait=off,logfile=/dev/fdset/3,logappend=on",
        *("-serial", "chardev:serial0"),
        "-blockdev",
        "driver=qcow2,node-name=disk0,discard=unmap,file.driver=file,file.filename=disk.qcow2",
        *("-device", "virtio-blk-pci,drive=disk0,id=virtio-disk0,bootindex=1"),
        *("-netdev", "user,id=net0,hostfwd=tcp:127.0.0.1:0-:22"),
        *("-device", f"virtio-net-pci,netdev=net0,mac={make_mac(JOB)},romfile="),
        *("-device", "virtio-rng-pci"),
    ]


def test_a_vm_in_a_network_has_its_tap_and_a_door_that_leads_nowhere() -> None:
    interface = NetworkInterface(9, "06:00:00:00:00:01", 1442)
    words = arguments(hardware=VmHardware("tcg", interface=interface))
    prefix = "net=169.254.255.0/24,host=169.254.255.2,dhcpstart=169.254.255.15"
    assert values(words, "-netdev") == [
        "tap,id=lan0,fd=9",
        f"user,id=door0,restrict=on,ipv6=off,{prefix}",
    ]
    assert [word for word in values(words, "-device") if "net-pci" in word] == [
        "virtio-net-pci,netdev=lan0,mac=06:00:00:00:00:01,host_mtu=1442,romfile=",
        f"virtio-net-pci,netdev=door0,mac={make_mac(JOB)},romfile=",
    ]


def test_the_shell_becomes_qemu_and_interprets_none_of_its_words() -> None:
    command = build_command(JOB, "dev", VmSpec(kernel="/a b/$(reboot)"), TCG)
    assert command[:4] == ("/bin/sh", "-c", 'exec 3>&1; exec "$@"', "sh")
    assert "/a b/$(reboot)" in command


def test_a_kernel_is_booted_directly_without_a_disk() -> None:
    spec = VmSpec(kernel="/vmlinuz", initrd="/initrd", append="console=ttyS0 a=b,c")
    words = arguments(spec)
    assert values(words, "-kernel") == ["/vmlinuz"]
    assert values(words, "-initrd") == ["/initrd"]
    assert values(words, "-append") == ["console=ttyS0 a=b,c"]
    assert values(words, "-blockdev") == []


def test_the_seed_is_a_disk_that_cannot_be_written() -> None:
    words = arguments(VmSpec(image="/i", ssh_keys=("ssh-ed25519 A",)))
    seed = values(words, "-blockdev")[1]
    assert seed == (
        "driver=raw,node-name=seed0,read-only=on,file.driver=file,file.filename=../seed.iso"
    )


def test_a_comma_in_a_name_ends_no_option() -> None:
    assert values(arguments(name="a,accel=kvm"), "-name") == [
        "guest=a,,accel=kvm,process=a,,accel=kvm"
    ]


def test_with_hardware_virtualization_the_guest_has_the_hosts_processor() -> None:
    words = arguments(hardware=VmHardware("kvm"))
    assert values(words, "-accel") == ["kvm"]
    assert values(words, "-cpu") == ["host,host-phys-bits=on"]


def test_each_card_has_a_root_port_and_its_functions_share_it() -> None:
    functions = (
        PciFunction("0000:01:00.0", 7, "vfio-pci", (16 * MIB, 256 * GIB)),
        PciFunction("0000:01:00.1", 7, "vfio-pci", (16 * 1024,)),
        PciFunction("0000:41:00.0", 9, "vfio-pci", (256 * GIB,)),
    )
    devices = values(arguments(hardware=VmHardware("tcg", functions)), "-device")[2:]
    assert devices[1:] == [
        "pcie-root-port,id=port0,bus=pcie.0,chassis=1",
        "vfio-pci,host=0000:01:00.0,bus=port0,addr=0x0.0,multifunction=on,rombar=0",
        "vfio-pci,host=0000:01:00.1,bus=port0,addr=0x0.1,rombar=0",
        "pcie-root-port,id=port1,bus=pcie.0,chassis=2",
        "vfio-pci,host=0000:41:00.0,bus=port1,rombar=0",
    ]


def test_large_bars_widen_the_hole_for_both_firmwares() -> None:
    functions = (PciFunction("0000:01:00.0", 7, "vfio-pci", (16 * MIB, 256 * GIB, 32 * MIB)),)
    words = arguments(hardware=VmHardware("tcg", functions))
    assert values(words, "-global") == [f"q35-pcihost.pci-hole64-size={512 * GIB}"]
    assert values(words, "-fw_cfg") == ["name=opt/ovmf/X-PciMmio64Mb,string=524288"]


def test_a_mediated_device_is_named_by_its_uuid() -> None:
    uuid = "c0b26072-dd1b-4340-84fe-bf338c510818"
    devices = values(arguments(hardware=VmHardware("tcg", (), (uuid,))), "-device")
    assert devices[-1] == f"vfio-pci,sysfsdev=/sys/bus/mdev/devices/{uuid},bus=port0"


def test_a_vm_that_is_continued_keeps_its_addresses_and_its_seed() -> None:
    spec = VmSpec(image="/i", continues="j-second", identity="j-first", has_old_seed=True)
    words = arguments(spec)
    assert values(words, "-uuid") == [str(make_uuid("j-first"))]
    assert make_mac("j-first") in " ".join(words)
    assert len(values(words, "-blockdev")) == 2


def test_address_and_uuid_stay_the_same_and_differ_between_vms() -> None:
    assert make_mac(JOB) == make_mac(JOB) != make_mac("j-another")
    assert make_uuid(JOB) == make_uuid(JOB) != make_uuid("j-another")
    # The range of QEMU, in which no card of a vendor is.
    assert make_mac(JOB).startswith("52:54:00:")


def test_uefi_has_the_hosts_code_and_variables_of_its_own() -> None:
    words = arguments(hardware=VmHardware("tcg", firmware_code="/fw/OVMF,CODE.fd"))
    assert values(words, "-machine") == [
        "q35,mem-merge=off,dump-guest-core=off,pflash0=firmware0,pflash1=firmware1"
    ]
    assert values(words, "-blockdev")[:2] == [
        "node-name=firmware0,driver=file,filename=/fw/OVMF,,CODE.fd,read-only=on",
        "node-name=firmware1,driver=file,filename=firmware.fd",
    ]
