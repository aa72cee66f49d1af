"""A guest with two network interfaces: one in a tenant's network, one for log-ins from its host.

It asks for leases on both, serves its name at port 7000 and the version line of SSH at port 22, and
runs each line that is typed on its console, between two marks.
"""

from __future__ import annotations

from pathlib import Path

from tests.hosts import guest

#: What the guest prints when it has its leases.
LEASED = "guest has its leases"
MODULES = (
    *("virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci"),
    *("failover", "net_failover", "virtio_net"),
)
#: With a lease: udhcpc(8) gives the options in the environment.
_LEASE = """#!/bin/busybox sh
[ "$1" = bound ] || exit 0
/bin/busybox ip addr add "$ip/$mask" dev "$interface"
[ -n "$mtu" ] && /bin/busybox ip link set "$interface" mtu "$mtu"
for one in $router; do /bin/busybox ip route add default via "$one"; done
[ -n "$domain" ] && echo "search $domain" >>/etc/resolv.conf
# OVN 23.03 answers no question for IPv6 addresses.
[ -n "$dns" ] && echo "options no-aaaa" >>/etc/resolv.conf
for one in $dns; do echo "nameserver $one" >>/etc/resolv.conf; done
echo "lease $interface $ip router=$router dns=$dns mtu=$mtu domain=$domain" >/dev/console
"""
_INIT = f"""#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs devtmpfs /dev
/bin/busybox mkdir /etc
for module in {" ".join(MODULES)}; do /bin/busybox insmod /$module.ko; done
/bin/busybox ip link set lo up
for interface in eth0 eth1; do
  /bin/busybox ip link set $interface up
  /bin/busybox udhcpc -i $interface -s /bin/lease -q -n -t 20 -T 1 -O mtu >/dev/null 2>&1 </dev/null
done
for interface in eth0 eth1; do
  echo "mtu of $interface $(/bin/busybox cat /sys/class/net/$interface/mtu)"
  /bin/busybox ip addr show dev $interface
done
/bin/busybox ip route
/bin/busybox cat /etc/resolv.conf
/bin/busybox nc -ll -p 7000 -e /bin/busybox echo -n from-vm &
/bin/busybox nc -ll -p 22 -e /bin/ssh_line &
echo {LEASED}
while read -r number line; do echo "begin-$number"; eval "$line"; echo "end-$number"; done
"""
#: A server of which no more than the version line is needed (RFC 4253 section 4.2).
_SSH_LINE = """#!/bin/busybox sh
echo SSH-2.0-guest
read -r line
"""


def write_network_guest(path: Path) -> None:
    """Write the guest's initial file system."""
    guest.write_initramfs(path, _INIT, MODULES, lease=_LEASE, ssh_line=_SSH_LINE)
