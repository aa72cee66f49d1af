"""What a rig is: calls that may be killed, and all that a kill can leave behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.kill_points import run_killed

Call = Callable[[], object]
#: Runs a call that is killed at its change with that number; whether it was killed.
Killer = Callable[[int, Call], bool]
World = Mapping[str, object]


class RigAbsent(Exception):
    """This machine cannot build the rig; the text says what it lacks."""


@dataclass(frozen=True)
class KillRig:
    """One mechanism, layer or mode switch with its hardware in files.

    Attributes:
        calls: by verb what may be killed. The first prepares, the last undoes; both can be repeated.
            One between them changes what is prepared, and may be repeated as well.
        read_world: reads everything that the calls can change, in one comparable form.
        killers: by kind of change how to kill at it.
        made_once: prefixes of names in the world that the first life makes and that stay.
        find_problem: returns what is wrong with what was prepared; empty if nothing is.
    """

    calls: Mapping[str, Call]
    read_world: Callable[[], World]
    killers: Mapping[str, Killer] = field(default_factory=lambda: {"change": run_killed})
    made_once: tuple[str, ...] = ()
    find_problem: Callable[[], str] = str

    @property
    def begin(self) -> Call:
        """Prepare, or enter a mode."""
        return next(iter(self.calls.values()))

    @property
    def undo(self) -> Call:
        """Unprepare, or leave a mode."""
        return list(self.calls.values())[-1]

    def live_once(self) -> World:
        """Prepare and undo without a kill, and return the world that every later life must leave."""
        first = self.read_world()
        self.begin()
        assert self.read_world() != first, "the rig changes nothing, so no kill can show a leak"
        self.undo()
        after = self.read_world()
        changed = [name for name in list_differences(first, after) if not self._is_made_once(name)]
        assert not changed, f"a life without a kill leaves {', '.join(changed)}"
        return after

    def _is_made_once(self, name: str) -> bool:
        return name.startswith(self.made_once)


#: Builds a rig in an empty directory, and takes down at its end what is outside of it.
RigBuilder = Callable[[Path], AbstractContextManager[KillRig]]


def list_differences(before: World, after: World) -> list[str]:
    """List the names of what is new, gone or changed."""
    names = sorted(before.keys() | after.keys())
    return [name for name in names if before.get(name) != after.get(name)]
