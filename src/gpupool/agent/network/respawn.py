"""A command line that starts a program again as soon as it ends, without an agent. Pure."""

from __future__ import annotations

from typing import Final

#: Seconds until the program is started again: well within the second after which ovs-vswitchd
#: connects to its database again for the first time (later it waits for up to 8 s).
_PAUSE_SECONDS: Final = 0.2

#: The shell ends with its program at SIGTERM, and only then.
_SCRIPT: Final = f"""\
end=
trap 'end=1; kill "$program" 2>/dev/null' TERM
while [ -z "$end" ]; do
    "$@" &
    program=$!
    # The signal may have come before its number was known.
    [ -z "$end" ] || kill "$program"
    wait "$program"
    [ -n "$end" ] || sleep {_PAUSE_SECONDS}
done
wait "$program"
"""


def make_respawning(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command line that runs another one, and runs it again when it has ended."""
    return ("sh", "-c", _SCRIPT, f"respawn-{arguments[0]}", *arguments)
