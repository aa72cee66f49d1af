"""`python -m gpupool.agent.relay.session STREAM REPORT`: one program in a running job.

The agent starts it with the descriptors of a stream and of a pipe for one word of report, and with
the request on standard input. It enters the job, reports `ok` or why not, starts the program and
stays with it: it ends when the program, the stream or the job ends. All that it needs is imported
before it enters, because the job's user may not read gpupool's files.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Any

from gpupool.agent.relay.entering import EntryFailure, enter_job
from gpupool.agent.relay.login_session import LoginSession, find_daemon
from gpupool.agent.relay.program_session import ProgramSession


def main(words: Sequence[str]) -> int:
    """Serve one session; returns the exit status of the process."""
    stream = socket.socket(fileno=int(words[0]))
    report = int(words[1])
    os.set_inheritable(stream.fileno(), False)
    os.set_inheritable(report, False)
    # The agent's own terminal, if it has one, is not the session's.
    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    request: dict[str, Any] = json.load(sys.stdin)
    try:
        daemon = find_daemon() if request["kind"] == "ssh" else ""
        command = enter_job(request)
        session = (
            LoginSession(request, stream, command, daemon)
            if daemon
            else ProgramSession(request, stream, command)
        )
    except EntryFailure as failure:
        os.write(report, str(failure).encode()[:400])
        return 1
    os.write(report, b"ok")
    os.close(report)
    session.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
