"""Dedicated lines on this machine: their interface, and a BGP speaker for each one.

A speaker runs in a namespace of its own, as a port of the switch like a job. Its daemons run under
supervisors of their own, so sessions survive the agent.
"""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path
from typing import Final

from gpupool.agent.jobs.helpers import HelperProcesses
from gpupool.agent.network.daemons import LINE_BRIDGE, EngineFiles, find_datapath
from gpupool.agent.network.lines.line_interface import LineInterface, read_statistics
from gpupool.agent.network.lines.line_translation import LineTranslations
from gpupool.agent.network.lines.speaker_config import (
    ACCOUNT,
    PACKAGE,
    PROGRAMS,
    format_speaker,
    list_announced,
    list_announcement_commands,
    list_daemons,
    locate_speaker,
    locate_speakers,
    name_user,
)
from gpupool.agent.network.lines.speaker_console import SpeakerConsole
from gpupool.agent.network.lines.speaker_daemons import SpeakerDaemons
from gpupool.agent.network.lines.speaker_session import (
    SpeakerView,
    count_wrong_keys,
    describe_session,
)
from gpupool.agent.network.namespaces import JobNamespaces, name_interface
from gpupool.agent.network.switch_ports import SwitchPorts
from gpupool.agent.supervisor.client import SupervisorError
from gpupool.base.durable import write_durably
from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.northbound import name_port
from gpupool.wire.network.engine import NetworkEngineWork
from gpupool.wire.network.lines import LineReport, LineWork
from gpupool.wire.network.networks import PortWork

#: Seconds in which the engine has to have the port of a speaker in force; it is tried again.
_PORT_SECONDS: Final = 3.0
#: How the ids of lines begin.
_LINES: Final = "l-"

log = logging.getLogger(__name__)


class LineSpeakers:
    """The dedicated lines of one engine. One thread at a time."""

    def __init__(self, files: EngineFiles, root: Path, helpers: HelperProcesses) -> None:
        self._files = files
        self._interface = LineInterface(files, root)
        self._namespaces = JobNamespaces(files, (_LINES,))
        self._helpers = helpers
        self._daemons = SpeakerDaemons(files, helpers)
        #: By line, what it learned last and how many packets with a wrong key came before.
        self._learned: dict[str, list[str]] = {}
        self._wrong_keys: dict[str, int] = {}
        self._plugged = set[str]()
        self._translations = LineTranslations()

    def prepare(self, ports: SwitchPorts, work: NetworkEngineWork) -> str:
        """Take the interface that is open for lines, or give it back. Idempotent.

        Returns:
            Why lines wait; empty: they do not.
        """
        self._plugged.clear()
        self._remove_other(ports, {line.id for line in work.lines})
        if self._interface.name != work.line_interface:
            ports.remove_bridge(LINE_BRIDGE)
            self._interface.release()
        if not work.line_interface:
            return ""
        try:
            _check_programs()
            self._interface.take(work.line_interface)
        except NetworkingUnavailable as error:
            hint = f"; {error.hint}" if error.hint else ""
            return f"lines wait: {error.message}{hint}"
        ports.add_bridge(LINE_BRIDGE, work.line_interface, find_datapath())
        return ""

    def follow(self, ports: SwitchPorts, work: NetworkEngineWork) -> list[LineReport]:
        """Start the speakers that do not run, and report how each session is. Idempotent."""
        reports = list[LineReport]()
        if not self._interface.has_interface(work.line_interface):
            reason = f"interface {work.line_interface} is not there: gpupool network status"
            return [LineReport(id=line.id, state="down", reason=reason) for line in work.lines]
        for line in work.lines:
            try:
                self._start(ports, line)
                reports.append(self._look(line))
            except (
                NetworkingUnavailable,
                SupervisorError,
                OSError,
                ValueError,
                LookupError,
            ) as error:
                reports.append(LineReport(id=line.id, state="starting", reason=str(error)[:400]))
        return reports

    def _start(self, ports: SwitchPorts, line: LineWork) -> None:
        namespace = self._namespaces.create(_make_port(line)).namespace
        self._write_configuration(line)
        self._daemons.start(line, namespace)
        self._translations.set_up(namespace, line)
        if line.id not in self._plugged:
            ports.add(name_interface(line.id), name_port(line.id), _PORT_SECONDS)
            self._plugged.add(line.id)

    def _write_configuration(self, line: LineWork) -> None:
        """Write the files of the daemons, and tell a running one what else to announce."""
        directory = locate_speaker(self._files, line.id)
        directory.parent.mkdir(mode=0o711, exist_ok=True)
        # Only the daemons' account and root pass: sockets there take commands.
        directory.mkdir(mode=0o700, exist_ok=True)
        shutil.chown(directory, ACCOUNT, ACCOUNT)
        wanted = format_speaker(line)
        for daemon in list_daemons(line):
            file = directory / f"{daemon}.conf"
            text = wanted if daemon == "bgpd" else "! no settings\n"
            present = file.read_text() if file.exists() else None
            if present == text:
                continue
            if present is not None and daemon == "bgpd":
                commands = list_announcement_commands(line, list_announced(present))
                with SpeakerConsole(directory / "bgpd.vty") as console:
                    console.run_all(commands)
            # It has the key.
            write_durably(file, text.encode(), mode=0o600)
            shutil.chown(file, ACCOUNT, ACCOUNT)

    def _look(self, line: LineWork) -> LineReport:
        if not self._interface.has_carrier():
            name = self._interface.name
            self._learned.pop(line.id, None)
            reason = f"interface {name} of the machine has no carrier: its cable is cut"
            return LineReport(id=line.id, state="down", reason=reason)
        view = self._read_view(line)
        namespace = self._namespaces.locate(line.id)
        wrong = count_wrong_keys(read_statistics(namespace))
        if view.is_up or line.id not in self._wrong_keys:
            # Also what came before this agent started does not say how it is now.
            self._wrong_keys[line.id] = wrong
        before = self._learned.get(line.id, [])
        report = describe_session(line, view, before, wrong - self._wrong_keys[line.id])
        self._learned[line.id] = report.learned
        return report

    def _read_view(self, line: LineWork) -> SpeakerView:
        path = locate_speaker(self._files, line.id) / "bgpd.vty"
        if not path.exists():
            raise NetworkingUnavailable("the BGP speaker starts")
        routes = f"show bgp ipv4 unicast neighbors {line.peer}"
        with SpeakerConsole(path) as console:
            neighbor = console.read(f"show bgp neighbors {line.peer}").get(line.peer, {})
            if neighbor.get("bgpState") != "Established":
                return SpeakerView(neighbor, (), ())
            accepted = console.read(f"{routes} routes").get("routes", {})
            received = console.read(f"{routes} received-routes").get("receivedRoutes", {})
        return SpeakerView(neighbor, frozenset(accepted), frozenset(received))

    def _remove_other(self, ports: SwitchPorts, wanted: set[str]) -> None:
        """Remove the speakers of lines that were deleted."""
        for line in self._namespaces.list_ports():
            if line in wanted:
                continue
            self._helpers.release(name_user(line))
            ports.remove(name_interface(line))
            shutil.rmtree(locate_speaker(self._files, line), ignore_errors=True)
            self._namespaces.remove(line)
            self._translations.forget(line)
            self._learned.pop(line, None)
            self._wrong_keys.pop(line, None)

    def end(self) -> None:
        """Remove every speaker. Idempotent; the switch has ended or ends."""
        for line in self._namespaces.list_ports():
            self._helpers.release(name_user(line))
            self._namespaces.remove(line)
        shutil.rmtree(locate_speakers(self._files), ignore_errors=True)

    def release_interface(self) -> None:
        """Move the interface back; the switch has ended. Idempotent."""
        self._interface.release()


def _check_programs() -> None:
    missing = [
        name for name in ("zebra", "bgpd", "bfdd") if not os.access(PROGRAMS / name, os.X_OK)
    ]
    if missing:
        raise NetworkingUnavailable(
            f"this machine lacks {', '.join(missing)} of the package {PACKAGE}",
            hint=f"apt-get install --no-install-recommends {PACKAGE}",
        )


def _make_port(line: LineWork) -> PortWork:
    """Describe the speaker's attachment to the switch, which is like a job's."""
    return PortWork(
        id=line.id,
        network="",
        address=line.speaker,
        prefix=line.prefix,
        gateway=line.router,
        mac=line.mac,
        mtu=line.mtu,
        domain="",
        dns_name="",
    )
