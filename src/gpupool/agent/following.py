"""Following a job that has been started: speaking with its supervisor, telling that it runs, hearing of its end, asking
it to stop.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from gpupool.agent.crew import Crew
from gpupool.agent.ending import Ending
from gpupool.agent.held import Held, HeldTable, Phase
from gpupool.agent.means import Means
from gpupool.agent.supervisor import (
    Connection,
    ConnectionLost,
    JobState,
    JobStatus,
    LiveStatus,
    NotRunning,
    SupervisorError,
    inspect,
)
from gpupool.agent.watch import Watch
from gpupool.mechanisms.contract import FenceLevel
from gpupool.mechanisms.fence import Fence
from gpupool.wire.fleet import FENCE_WHY

RECONNECT_SECONDS = 5.0
_RECONNECT_PAUSE_SECONDS = 0.005
_PAUSES = int(RECONNECT_SECONDS / _RECONNECT_PAUSE_SECONDS)

log = logging.getLogger(__name__)


class Following:
    """Each step runs under the lock of its job; `heard` and `began` are called in the watching thread."""

    def __init__(self, means: Means, table: HeldTable, watch: Watch, crew: Crew, ending: Ending) -> None:
        self._means, self._table, self._watch, self._crew, self._ending = means, table, watch, crew, ending

    # Found in some state -------------------------------------------------------------------------------

    def found(self, held: Held, status: JobStatus) -> None:
        """Go on from what a job's directory says."""
        if status.state is JobState.RUNNING:
            self.reconnect(held)
        elif status.state is JobState.ENDED and status.exit is not None:
            self._ending.ended(held, status.exit)
        elif status.state is JobState.DIED:
            self._ending.died(held)
        elif held.phase is not Phase.WAITING:
            self._never_began(held)

    def _never_began(self, held: Held) -> None:
        if held.refusal:
            self._ending.refuse(held, held.refusal)
        elif held.stop_grace is not None:
            self._ending.never(held, "stopped before it started")
        else:
            self._ending.never(held, "its node could not start it")

    def failed(self, held: Held, error: BaseException) -> None:
        """A step ended in an error that nobody expected: whatever did not begin ends with that as its reason."""
        if held.phase is Phase.STARTING and inspect(held.directory).state is JobState.NOT_STARTED:
            held.refusal = held.refusal or f"its node could not start it: {error or type(error).__name__}"[:400]
            self._never_began(held)

    def reconnect(self, held: Held) -> None:
        """Speak with the supervisor. One that is just beginning or ending has no ear for some milliseconds."""
        if held.connection is not None or held.phase is Phase.ENDED:
            return
        for _ in range(_PAUSES):
            status = inspect(held.directory)
            if status.state is not JobState.RUNNING:
                self.found(held, status)
                return
            held.phase = Phase.RUNNING
            try:
                self._adopt(held)
                return
            except (NotRunning, ConnectionLost):
                if self._crew.closing.wait(_RECONNECT_PAUSE_SECONDS):
                    return
            except SupervisorError as error:
                log.warning("job %s cannot be spoken with yet: %s", held.checkpoint.job, error)
                return

    def _adopt(self, held: Held) -> None:
        """Raises SupervisorError; then nothing has changed."""
        connection = Connection(held.directory)
        self._means.divide_for(held)
        try:
            if held.checkpoint.attached:
                self._watch.await_start(held.key, held.directory)
            connection.subscribe()
            held.connection = connection
            self._tell_progress(held, False)
        except BaseException:
            held.connection = None
            connection.close()
            raise
        self._means.changed()
        if held.stop_grace is not None:
            connection.stop(held.stop_grace)
        self._hear(held)

    # Telling -------------------------------------------------------------------------------------------

    def tell_anew(self, held: Held, generation: int) -> None:
        """The server has not heard that it runs, or not under the generation that counts."""
        if held.checkpoint.generation != generation:
            held.checkpoint = replace(held.checkpoint, generation=generation)
            self._means.directories.write(held.checkpoint)
        self._tell_progress(held, True)

    def _tell_progress(self, held: Held, again: bool) -> None:
        """Tell that it is prepared for its client, or runs. Once for each, unless `again`."""
        if held.connection is None:
            return
        live = self._settled(held.connection)
        held.supervisor_pid, held.started_ns = live.supervisor_pid, live.started_ns or None
        state = "prepared" if live.state == "waiting" else "running"
        if held.told == state and not again:
            return
        held.told = state
        level, why = self._fence_of(held, live)
        self._means.report(
            held.report(
                state,
                attach_socket=str(held.directory / "sock") if held.checkpoint.attached else None,
                fence=level.value,
                fence_why=why[:FENCE_WHY],
                started_ns=held.started_ns,
                pid=live.pid or None,
            )
        )
        self._means.fault("start-reported")

    def _settled(self, connection: Connection) -> LiveStatus:
        """Past the few milliseconds in which the command is being started and its mounts are not made yet."""
        for _ in range(_PAUSES):
            live = connection.status()
            if live.state != "starting" or self._crew.closing.wait(_RECONNECT_PAUSE_SECONDS):
                break
        return live

    def _fence_of(self, held: Held, live: LiveStatus) -> tuple[FenceLevel, str]:
        """What holds the job: as prepared, or less where its mounts were refused."""
        mechanism, state_dir = self._means.mechanism_of(held), self._means.state_dir
        held.mounted = not live.share_refused
        if live.share_refused and isinstance(mechanism, Fence):
            mechanism.weaken(held.key, f"its private mounts were refused ({live.share_refused})", state_dir)
        return mechanism.held(held.key, state_dir)

    # Hearing -------------------------------------------------------------------------------------------

    def heard(self, key: str) -> None:
        """Never waits for a lock that a slow step may hold."""
        held = self._table.get(key)
        if held is None:
            return
        if held.lock.acquire(blocking=False):
            try:
                self._crew.guard(self._hear, held)
            finally:
                held.lock.release()
        else:
            self._crew.submit(self._hear, held)

    def began(self, key: str) -> None:
        held = self._table.get(key)
        if held is not None:
            self._crew.submit(self._tell_progress, held, False)

    def _hear(self, held: Held) -> None:
        """Read what the supervisor has to say, and listen for the next."""
        if held.connection is None:
            return
        try:
            news = held.connection.read_event()
        except SupervisorError:
            held.hang_up(self._watch)
            self._crew.submit(self.reconnect, held)
            return
        if news is None:
            self._watch.listen(held.key, held.connection.fileno())
        else:
            self.found(held, inspect(held.directory))

    # Stopping ------------------------------------------------------------------------------------------

    def stop(self, held: Held, grace: int) -> None:
        """Ask for its end; whatever of it is under way comes first."""
        if held.phase is not Phase.ENDED:
            held.stop_grace = grace
            self._crew.submit(self._send_stop, held)

    def _send_stop(self, held: Held) -> None:
        """Behind a start that is under way, since both hold the lock."""
        if held.phase is Phase.WAITING:
            self._ending.never(held, "stopped before it started")
        elif held.connection is not None and held.stop_grace is not None:
            try:
                held.connection.stop(held.stop_grace)
            except SupervisorError as error:
                log.warning("job %s could not be told to stop: %s", held.checkpoint.job, error)
            self._hear(held)
        elif held.phase in (Phase.STARTING, Phase.RUNNING):
            self.reconnect(held)
