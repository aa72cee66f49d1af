"""Between a person's terminal and a job's: bytes, size, raw mode and signals.

Apart from `attach` because it is only needed once the program runs. Must not know the protocol
beyond the two lines it sends, `signal N` and `stop SECONDS`.
"""

from __future__ import annotations

import errno
import os
import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from types import TracebackType
    from typing import Any, Protocol

    class Line(Protocol):
        """What accepts a line for the supervisor."""

        def send(self, line: str) -> None: ...

    class Interrupts(Protocol):
        """What knows whether a Ctrl-C is the second."""

        def is_second(self) -> bool: ...
else:
    import _signal  # what `signal` wraps, without enum


#: Bytes read at once; no more typed input than this is kept for a program that does not read.
_CHUNK = 65536
#: Between two looks at a terminal that no process has open.
_HUNG_UP_PAUSE_MS = 1000
#: The supervisor reads the log's pipe all the time: one that does not for so long was stopped.
_LOG_PATIENCE_SECONDS = 1.0
#: Meant for the program. It runs in a session of its own, so the kernel sends them to us alone.
_PASSED_ON = (
    _signal.SIGINT,
    _signal.SIGTERM,
    _signal.SIGHUP,
    _signal.SIGQUIT,
    _signal.SIGUSR1,
    _signal.SIGUSR2,
)
#: About our own terminal and our own stops; the relay handles each.
_OURS = (_signal.SIGTSTP, _signal.SIGCONT, _signal.SIGWINCH)


def _only_wake(number: int, frame: object) -> None:
    """The number has been written to the wake-up descriptor by then."""


class SignalQueue:
    """Signals as bytes on a descriptor. Those that were ignored stay ignored (nohup); outside the
    main thread, none."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before: dict[int, Any] = {}
        self._wakeup_before: int | None = None
        try:
            self._wakeup_before = _signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        except ValueError:  # not the main thread, which handles the signals
            return
        for number in (*_PASSED_ON, *_OURS):
            if _signal.getsignal(number) != _signal.SIG_IGN:
                self._before[number] = _signal.signal(number, _only_wake)

    def restore(self) -> None:
        """Everything as it was. Idempotent."""
        for number, handler in self._before.items():
            _signal.signal(number, handler if handler is not None else _signal.SIG_DFL)
        self._before = {}
        if self._wakeup_before is not None:
            _signal.set_wakeup_fd(self._wakeup_before)
            self._wakeup_before = None
        if self._read >= 0:
            os.close(self._read)
            os.close(self._write)
            self._read = -1

    def fileno(self) -> int:
        return self._read

    def take(self) -> bytes:
        """The numbers that have come, in order."""
        try:
            return os.read(self._read, 512)
        except BlockingIOError:
            return b""


class NoRelay:
    """For a program that has our descriptors: nothing to move, only signals to pass on."""

    def __enter__(self) -> NoRelay:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing was changed."""

    def wait(self, channel: int, signals: int) -> set[int]:
        poll = select.poll()
        for descriptor in (channel, signals):
            poll.register(descriptor, select.POLLIN)
        return {descriptor for descriptor, _ in poll.poll()}

    def move(self, ready: set[int]) -> None:
        """The program reads and writes by itself."""

    def finish(self) -> None:
        """Nothing is left in between."""

    def on_signal(self, number: int, line: Line, interrupts: Interrupts) -> None:
        if number == _signal.SIGTSTP:
            self._stop_both(line)
        elif number == _signal.SIGCONT:
            line.send(f"signal {int(_signal.SIGCONT)}")
        elif number == _signal.SIGINT and interrupts.is_second():
            line.send("stop 0")
        elif number in _PASSED_ON:
            line.send(f"signal {number}")

    def _stop_both(self, line: Line) -> None:
        """The program is alone in its session, where the kernel ignores the polite stop: it gets
        the other one."""
        line.send(f"signal {int(_signal.SIGSTOP)}")
        os.kill(os.getpid(), _signal.SIGSTOP)
        line.send(f"signal {int(_signal.SIGCONT)}")


class TerminalRelay(NoRelay):
    """Our terminal in raw mode, the job's behind it. Ours is as it was when this ends, however it
    ends. What it shows goes into a log too, where there is one."""

    def __init__(self, terminal: int, log: int | None = None) -> None:
        self._terminal = terminal
        self._log = log
        self._saved: list[Any] = []
        self._typed = b""
        self._input_open = self._output_open = True
        self._hung_up = False

    def __enter__(self) -> TerminalRelay:
        import termios

        self._saved = termios.tcgetattr(0)
        self._go_raw()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()
        os.close(self._terminal)
        self._close_log()

    def wait(self, channel: int, signals: int) -> set[int]:
        poll = select.poll()
        poll.register(channel, select.POLLIN)
        poll.register(signals, select.POLLIN)
        if self._input_open and len(self._typed) < _CHUNK:
            poll.register(0, select.POLLIN)
        # A terminal that no process has open reports a hang-up without end: look again a little
        # later.
        wanted = 0 if self._hung_up else select.POLLIN | (select.POLLOUT if self._typed else 0)
        if wanted:
            poll.register(self._terminal, wanted)
        ready = {
            descriptor for descriptor, _ in poll.poll(_HUNG_UP_PAUSE_MS if self._hung_up else None)
        }
        self._hung_up = False
        return ready

    def move(self, ready: set[int]) -> None:
        if 0 in ready:
            self._read_typed()
        if self._terminal in ready:
            self._show()
        if self._typed:
            self._pass_typed()

    def finish(self) -> None:
        """What the program wrote last is still in the terminal."""
        while self._show():
            continue
        self._close_log()

    def on_signal(self, number: int, line: Line, interrupts: Interrupts) -> None:
        if number == _signal.SIGWINCH:
            self._resize()
        elif number == _signal.SIGTSTP:
            self._restore()
            self._stop_both(line)
            self._go_raw()
            self._resize()
        elif (
            number == _signal.SIGCONT
        ):  # stopped and continued by a shell, which has reset the terminal
            self._go_raw()
            self._resize()
        elif number in _PASSED_ON:
            # No second chance for SIGINT here: in a terminal Ctrl-C is a key, and pressing it twice
            # is ordinary.
            line.send(f"signal {number}")

    def _go_raw(self) -> None:
        import termios
        import tty

        try:
            tty.setraw(0, termios.TCSANOW)
        except termios.error:
            self._input_open = False

    def _restore(self) -> None:
        import termios

        try:
            termios.tcsetattr(0, termios.TCSADRAIN, self._saved)
        except termios.error:
            self._input_open = False  # the terminal itself is gone

    def _resize(self) -> None:
        import fcntl
        import termios

        try:
            fcntl.ioctl(
                self._terminal, termios.TIOCSWINSZ, fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8))
            )
        except OSError:
            self._input_open = False

    def _read_typed(self) -> None:
        try:
            data = os.read(0, _CHUNK)
        except OSError:
            data = b""
        self._typed += data
        self._input_open = bool(data)

    def _pass_typed(self) -> None:
        try:
            self._typed = self._typed[os.write(self._terminal, self._typed) :]
        except BlockingIOError:
            return
        except OSError:
            self._typed = b""

    def _show(self) -> bool:
        """One chunk of output. False: there is none now."""
        try:
            data = os.read(self._terminal, _CHUNK)
        except BlockingIOError:
            return False
        except OSError as error:
            self._hung_up = error.errno == errno.EIO
            return False
        self._keep(data)
        self._write_out(data)
        return bool(data)

    def _keep(self, data: bytes) -> None:
        """Write what is shown into the log; without room there the rest is shown alone."""
        while data and self._log is not None:
            try:
                data = data[os.write(self._log, data) :]
            except BlockingIOError:
                if not select.select([], [self._log], [], _LOG_PATIENCE_SECONDS)[1]:
                    self._close_log()
            except OSError:
                self._close_log()

    def _close_log(self) -> None:
        if self._log is not None:
            os.close(self._log)
            self._log = None

    def _write_out(self, data: bytes) -> None:
        while data and self._output_open:
            try:
                data = data[os.write(1, data) :]
            except BlockingIOError:
                select.select([], [1], [])
            except OSError:
                self._output_open = False
