"""Connect a terminal with the serial console of a VM."""

from __future__ import annotations

import os
import select
import socket
import sys
import termios
import tty
from pathlib import Path
from typing import Final

from gpupool.terminal.context import print_notice
from gpupool.vm.qmp import open_socket

#: Ctrl-], as telnet and virsh have it.
LEAVE: Final = b"\x1d"
_CHUNK: Final = 4096


def relay_console(path: Path, name: str) -> int:
    """Copy bytes both ways until the user leaves or the VM ends. Returns the exit code.

    Where standard input is no terminal, its end does not end the relay: the output goes on.
    """
    with open_socket(path) as line:
        line.settimeout(None)
        if not os.isatty(0):
            _relay(line)
            return 0
        print_notice(f"console of {name}; Ctrl-] leaves it")
        before = termios.tcgetattr(0)
        try:
            tty.setraw(0)
            _relay(line)
        finally:
            termios.tcsetattr(0, termios.TCSADRAIN, before)
    sys.stdout.write("\r\n")
    return 0


def _relay(line: socket.socket) -> None:
    poll = select.poll()
    poll.register(line, select.POLLIN)
    poll.register(0, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if line.fileno() in ready:
            try:
                shown = line.recv(_CHUNK)
            except ConnectionResetError:
                return
            if not shown:
                return
            _write_all(shown)
        if 0 in ready:
            typed = os.read(0, _CHUNK)
            if not typed:
                poll.unregister(0)
                continue
            before, leave, _ = typed.partition(LEAVE)
            line.sendall(before)
            if leave:
                return


def _write_all(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]
