"""Ask before something is taken away: the plan first, then one question, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gpupool.base.errors import BadOption


def confirm_plan(plan: Sequence[str], *, yes: bool) -> None:
    """Print the plan and return once it is agreed to.

    Raises:
        BadOption: There is no terminal to ask on, and `yes` was not given.
        KeyboardInterrupt: The answer was no.
    """
    sys.stdout.write("".join(f"will {line}\n" for line in plan))
    sys.stdout.flush()
    if yes:
        return
    # A pipe is no answer: `yes | gpupool down --purge` must be said as --yes, on purpose.
    if not sys.stdin.isatty():
        raise BadOption(
            "nothing was done: this needs a yes, and there is no terminal to ask on",
            hint="add --yes",
        )
    sys.stdout.write("go on? [y/N] ")
    sys.stdout.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        sys.stdout.write("nothing was done\n")
        # "No" ends a command as Ctrl-C does: exit code 130, and nothing was done.
        raise KeyboardInterrupt
