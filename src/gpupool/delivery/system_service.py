"""Puts a pool's unit into place, starts and removes it, through the program systemctl.

Every verb is idempotent: it looks first, and a run that was cut off is finished by the next one.
With a root other than `/` only files are written, for images of machines; nothing is started.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpupool.base.durable import make_directory_durably, sync_directory, write_durably
from gpupool.base.errors import ForeignUnit, SystemdUnusable
from gpupool.delivery.unit import NAME, START_SECONDS, STOP_SECONDS, is_ours

#: Directory of units that an administrator makes; systemd.unit(5).
_UNITS: Final = Path("etc/systemd/system")
#: Exists where systemd is the service manager; sd_booted(3).
_BOOTED: Final = Path("/run/systemd/system")
#: Seconds for a question to systemctl.
_ANSWER_SECONDS: Final = 30


@dataclass(frozen=True)
class ServiceState:
    """What is known of the service.

    Attributes:
        text: The unit as it is on disk; None if there is none.
        is_enabled: Whether it starts with the machine.
        activity: `active`, `inactive`, `failed`, ... as systemctl says; `--` where nothing runs.
    """

    text: str | None
    is_enabled: bool
    activity: str


class SystemService:
    """The service `gpupool` of a machine, or of a file system below `root`. Blocks."""

    def __init__(self, root: Path = Path("/"), booted: Path = _BOOTED) -> None:
        self.root = root
        self._booted = booted

    @property
    def path(self) -> Path:
        """The unit's file."""
        return self.root / _UNITS / NAME

    @property
    def is_live(self) -> bool:
        """Whether services can be started: the root is this machine's, and systemd runs it."""
        return self.root == Path("/") and self._booted.is_dir()

    def check_usable(self) -> None:
        """Raise SystemdUnusable unless the service can be changed here."""
        if shutil.which("systemctl") is None:
            raise SystemdUnusable(
                "this machine has no program systemctl, so no service of systemd",
                hint="gpupool up -d  starts a pool without a service manager",
            )
        if self.root == Path("/") and not self.is_live:
            raise SystemdUnusable(
                f"systemd does not run this machine ({self._booted} is not there)",
                hint="gpupool up -d  starts a pool without it; for the image of a machine: "
                "--system-root DIR; to see the unit: gpupool up --print-unit",
            )

    def read_state(self) -> ServiceState:
        """Read what is there. Raises SystemdUnusable, and OSError where the unit is unreadable."""
        try:
            text: str | None = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            text = None
        is_enabled = False
        if text is not None:
            is_enabled = self._ask("is-enabled", NAME) == "enabled"
        activity = self._ask("is-active", NAME) if self.is_live else "--"
        return ServiceState(text, is_enabled, activity)

    def check_own(self, state: ServiceState) -> None:
        """Raise ForeignUnit where a person or another program wrote the unit."""
        if state.text is None or is_ours(state.text):
            return
        raise ForeignUnit(
            f"{self.path} was not written by gpupool up --system; it stays as it is",
            hint=f"keep it, or remove it first: systemctl disable {NAME} && rm {self.path}",
            path=str(self.path),
        )

    def install(self, text: str) -> None:
        """Write the unit and enable it."""
        make_directory_durably(self.path.parent, mode=0o755)
        write_durably(self.path, text.encode(), mode=0o644)
        self._reload()
        self._do("enable", NAME)

    def make_state_directory(self, state_dir: Path) -> None:
        """Make a pool's state directory: a sandbox can open only what is there. Idempotent."""
        # 0711, as the server makes it: users reach its socket by name and cannot list it.
        make_directory_durably(self.root / state_dir.relative_to("/"), mode=0o711)

    def start(self, *, again: bool) -> None:
        """Start the service, or restart it; returns when the pool answers."""
        # Its failures of before count against the limit of starts.
        self._do("reset-failed", NAME, may_fail=True)
        self._do("restart" if again else "start", NAME, seconds=START_SECONDS + STOP_SECONDS)

    def disable(self) -> None:
        """Let the machine start without it; what runs goes on."""
        self._do("disable", NAME)

    def remove(self) -> None:
        """Stop and disable the service, and remove its unit."""
        if self.is_live:
            self._do("stop", NAME, seconds=2 * STOP_SECONDS)
        self.disable()
        self.path.unlink(missing_ok=True)
        sync_directory(self.path.parent)
        self._reload()
        self._do("reset-failed", NAME, may_fail=True)

    def _reload(self) -> None:
        if self.is_live:
            self._do("daemon-reload")

    def _make_command(self, words: tuple[str, ...]) -> list[str]:
        if self.root == Path("/"):
            return ["systemctl", *words]
        return ["systemctl", f"--root={self.root}", *words]

    def _ask(self, *words: str) -> str:
        done = self._run(words, _ANSWER_SECONDS)
        return done.stdout.strip()

    def _do(self, *words: str, seconds: int = _ANSWER_SECONDS, may_fail: bool = False) -> None:
        if words[0] == "reset-failed" and not self.is_live:
            return
        done = self._run(words, seconds)
        if done.returncode and not may_fail:
            complaint = done.stderr.strip() or f"it ended with {done.returncode}"
            raise SystemdUnusable(
                f"systemctl {' '.join(words)} failed: {complaint}",
                hint="journalctl -u gpupool -n 50  shows why",
            )

    def _run(self, words: tuple[str, ...], seconds: int) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                self._make_command(words),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
                # Its words are compared below.
                env={**os.environ, "LC_ALL": "C"},
            )
        except FileNotFoundError:
            raise SystemdUnusable("this machine has no program systemctl") from None
        except subprocess.TimeoutExpired:
            raise SystemdUnusable(
                f"systemctl {' '.join(words)} did not end within {seconds} s",
                hint="systemctl status gpupool",
            ) from None
