"""Starts the program of a session: the child's half after the fork."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pwd
import signal
import termios
from collections.abc import Mapping, Sequence

#: What a shell answers for a program that is not there, or cannot be run.
_NOT_FOUND = 127
_NOT_RUN = 126
#: Signals that Python ignores and a program expects (`subprocess` restores the same ones).
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGHUP)


def find_shell() -> list[str]:
    """Return the login shell of this process's account."""
    try:
        return [pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"]
    except KeyError:
        return ["/bin/sh"]


def start_child(
    argv: Sequence[str],
    directory: str,
    environment: Mapping[str, str],
    streams: tuple[int, int, int],
    *,
    has_terminal: bool,
) -> int:
    """Start a program in a session of its own; return its process id.

    A program that cannot be run says so on its standard error and ends as a shell would: 126 or
    127.

    Args:
        streams: descriptors of its standard input, output and errors.
        has_terminal: they are a terminal, which becomes the one that controls the program.
    """
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        if has_terminal:
            fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
        # Away from 0, 1 and 2 first: one of them may be another's target.
        moved = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 10) for one in streams]
        for number, one in enumerate(moved):
            os.dup2(one, number)
        for number in _RESTORED:
            signal.signal(number, signal.SIG_DFL)
        os.chdir(directory)
        os.execvpe(argv[0], list(argv), dict(environment))
    except OSError as error:
        is_missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
        with contextlib.suppress(OSError):
            os.write(2, f"gpupool: cannot run {argv[0][:200]!r}: {error.strerror}\n".encode())
        os._exit(_NOT_FOUND if is_missing else _NOT_RUN)
    finally:
        os._exit(_NOT_RUN)
