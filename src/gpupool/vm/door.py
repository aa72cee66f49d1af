"""A connection to the SSH server of a guest in a network, for `ssh` as its ProxyCommand.

Such a guest has no port on its host. QEMU is asked to open one on 127.0.0.1, and to close it as
soon as the guest has answered. `ssh` takes the connection from standard output (ProxyUseFdpass of
ssh_config(5)), so nothing stays between the two. Run as `python -m gpupool.vm.door CONTROL`.
"""

from __future__ import annotations

import socket
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from gpupool.base.errors import VmUnreachable
from gpupool.vm.address import parse_ssh_address
from gpupool.vm.argv import DOOR
from gpupool.vm.qmp import QmpConnection

#: Seconds in which the SSH server of the guest has to say its version (RFC 4253 section 4.2).
_ANSWER_SECONDS: Final = 20.0


def connect_guest(control: Path, seconds: float = _ANSWER_SECONDS) -> socket.socket:
    """Connect to port 22 of a guest; blocks until its server has answered.

    Raises:
        VmUnreachable: QEMU or the guest does not answer.
    """
    with QmpConnection(control) as qemu:
        _command(qemu, f"hostfwd_add {DOOR} tcp:127.0.0.1:0-:22")
        address = parse_ssh_address(_command(qemu, "info usernet"))
        if address is None:
            raise VmUnreachable("QEMU opened no port for the log-in", hint="gpupool vm console")
        try:
            return _await_answer(address, seconds)
        finally:
            # An accepted connection stays.
            _command(qemu, f"hostfwd_remove {DOOR} tcp:127.0.0.1:{address[1]}")


def _await_answer(address: tuple[str, int], seconds: float) -> socket.socket:
    with ExitStack() as opened:
        try:
            connection = opened.enter_context(socket.create_connection(address, seconds))
            # Until then QEMU may not have accepted it.
            if connection.recv(1, socket.MSG_PEEK):
                connection.settimeout(None)
                opened.pop_all()
                return connection
            reason = "it closed the connection"
        except TimeoutError:
            reason = f"no answer within {seconds:g} s"
        except OSError as error:
            reason = error.strerror or str(error)
    raise VmUnreachable(
        f"the SSH server of the guest does not answer: {reason}",
        hint="gpupool vm console  shows how far the guest is",
    )


def _command(qemu: QmpConnection, line: str) -> str:
    # QMP has no command for forwards.
    answer: str = qemu.execute("human-monitor-command", **{"command-line": line})
    return answer


def main(words: list[str]) -> int:
    """Connect to the guest of a control socket, and give the connection to the caller."""
    try:
        connection = connect_guest(Path(words[0]))
    except VmUnreachable as error:
        sys.stderr.write(f"gpupool: {error.message}\n  {error.hint}\n")
        return 1
    with socket.socket(fileno=1) as caller:
        socket.send_fds(caller, [b"\0"], [connection.fileno()])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
