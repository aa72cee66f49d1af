"""A company behind a dedicated line: a carrier's switch (VLAN) and a real BGP router, in namespaces.

The switch is an Open vSwitch of its own, since a kernel may have no VLANs. One end of a cable stays
on this machine: it is what an admin opens for lines.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gpupool.agent.network.namespaces import enter_namespace, turn_checksum_off
from tests.support.ovsdb import is_listening
from tests.support.supervised import until

VLAN = 200
ADDRESS = "192.168.200.6"
LINK = f"{ADDRESS}/29"
SPEAKER = "192.168.200.2"
ROUTER = "192.168.200.1"
#: A host of the company.
HOST = "172.20.0.1"
NETWORK = "172.20.0.0/16"
ASN = 65001
POOL_ASN = 64512
KEY = "s3cret-of-the-line"

_BGP = f"""
router bgp {ASN}
 bgp router-id {ADDRESS}
 no bgp ebgp-requires-policy
 no bgp network import-check
 neighbor {SPEAKER} remote-as {POOL_ASN}
 neighbor {SPEAKER} password {KEY}
 neighbor {SPEAKER} bfd 5 300 300
 neighbor {SPEAKER} timers 3 9
 neighbor {SPEAKER} timers connect 1
 address-family ipv4 unicast
  network {NETWORK}
  neighbor {SPEAKER} advertisement-interval 0
 exit-address-family
"""


class CompanyRouter:
    """The switch and the router; both end with the `with` block."""

    def __init__(self) -> None:
        self.interface = f"gpl{os.getpid()}"
        self.switch = f"gpt-sw-{os.getpid()}"
        self.router = f"gpt-co-{os.getpid()}"
        self.directory = Path(tempfile.mkdtemp(prefix="gpl-"))
        self.directory.chmod(0o755)
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            self._start_switch()
            self._start_router()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all of it; the cable goes with the switch's namespace."""
        for process in reversed(self._processes):
            process.terminate()
            process.wait(10)
        for name in (self.router, self.switch):
            subprocess.run(["ip", "netns", "del", name], check=False)
        shutil.rmtree(self.directory)

    def command(self, *words: str) -> list[str]:
        """Words that run a program in the company's namespace."""
        return ["ip", "netns", "exec", self.router, *words]

    def ask(self, command: str) -> Any:
        """What the router says, of JSON."""
        done = self._vtysh([f"{command} json"])
        return json.loads(done)

    def change(self, *commands: str) -> None:
        """Change the router's settings while it runs."""
        self._vtysh(["configure terminal", f"router bgp {ASN}", *commands])

    def change_prefixes(self, *commands: str) -> None:
        self.change("address-family ipv4 unicast", *commands)

    def list_routes(self) -> str:
        """The routes of the company's kernel that it has by BGP."""
        words = self.command("ip", "route", "show", "proto", "bgp")
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    def set_link(self, name: str, state: str) -> None:
        """Cut a cable of the switch or plug it in: `trunk` to the pool, `access` to the company."""
        _run("ip", "-n", self.switch, "link", "set", name, state)

    def _vtysh(self, commands: list[str]) -> str:
        words = ["vtysh", "--vty_socket", str(self.directory / "frr"), "-d", "bgpd"]
        for command in commands:
            words += ["-c", command]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    def _start_switch(self) -> None:
        _run("ip", "netns", "add", self.switch)
        _run("ip", "netns", "add", self.router)
        _run(*f"ip link add {self.interface} type veth peer trunk netns {self.switch}".split())
        inner = f"ip -n {self.switch} link add access type veth peer wan0 netns {self.router}"
        _run(*inner.split())
        for name in ("trunk", "access"):
            self._set_up(self.switch, name)
        run = self.directory
        environment = {**os.environ, "OVS_RUNDIR": str(run), "OVS_DBDIR": str(run)}
        schema = "/usr/share/openvswitch/vswitch.ovsschema"
        _run("ovsdb-tool", "create", f"{run}/conf.db", schema)
        remote = f"unix:{run}/db.sock"
        enter = ["ip", "netns", "exec", self.switch]
        self._spawn(
            ["ovsdb-server", f"{run}/conf.db", f"--remote=p{remote}", f"--unixctl={run}/d.ctl"],
            environment,
        )
        # The socket is there before it is listened on, and ovs-vsctl tries once.
        until(lambda: is_listening(run / "db.sock"), "the switch's database")
        _run("ovs-vsctl", f"--db={remote}", "--no-wait", "init")
        self._spawn(
            [*enter, "ovs-vswitchd", remote, f"--unixctl={run}/v.ctl", f"--pidfile={run}/v.pid"],
            environment,
        )
        words = "add-br sw -- set bridge sw datapath_type=netdev -- add-port sw trunk"
        _run("ovs-vsctl", f"--db={remote}", *words.split(), "--", "add-port", "sw", "access",
             f"tag={VLAN}")  # fmt: skip

    def _start_router(self) -> None:
        for address, name in ((LINK, "wan0"), (f"{HOST}/16", "lo")):
            _run("ip", "-n", self.router, "addr", "add", address, "dev", name)
            self._set_up(self.router, name)
        run = self.directory / "frr"
        run.mkdir()
        shutil.chown(run, "frr", "frr")
        for daemon in ("zebra", "bgpd", "bfdd"):
            file = run / f"{daemon}.conf"
            file.write_text(_BGP if daemon == "bgpd" else "! none\n")
            words = [f"/usr/lib/frr/{daemon}", "-f", str(file), "-i", f"{run}/{daemon}.pid"]
            words += ["--vty_socket", str(run), "-P", "0", "-z", f"{run}/zserv.api"]
            words += ["--bfdctl", f"{run}/bfdd.sock"] if daemon == "bfdd" else []
            self._spawn(self.command(*words))
            until((run / f"{daemon}.vty").exists, f"the socket of {daemon}")

    def _set_up(self, namespace: str, name: str) -> None:
        with enter_namespace(Path("/run/netns") / namespace):
            if name != "lo":
                turn_checksum_off(name)
        _run("ip", "-n", namespace, "link", "set", name, "up")

    def _spawn(self, words: list[str], environment: dict[str, str] | None = None) -> None:
        with open(self.directory / "log", "ab") as log:
            made = subprocess.Popen(words, env=environment, stdout=log, stderr=log)
        self._processes.append(made)


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
