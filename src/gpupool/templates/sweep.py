"""The arguments of each job of a sweep: a grid, or random choices. Pure.

All jobs of an array have one command and one environment. So the arguments of every job are in
variables of the environment, and a few lines of sh(1) hand a job its own. They read a variable by
the job's number and never the text in it.
"""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

#: Jobs of one sweep: their arguments go into one environment, for which Linux gives 2 MiB.
MOST_TRIALS: Final = 1000
#: Bytes of all arguments: the caller's own variables need the rest.
MOST_BYTES: Final = 512 << 10
#: Bytes of `GPUPOOL_TRIAL_999_15=` and what the kernel keeps for each variable.
_NAME_BYTES: Final = 40
#: A name of a parameter: it becomes a part of an argument.
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}")
#: Significant digits of a number from a range.
_DIGITS: Final = 6
#: Adds the arguments of this job to the command. `eval` reads a name that is made of two numbers.
SCRIPT: Final = """\
part=0
while [ "$part" -lt "$GPUPOOL_TRIAL_PARTS" ]; do
  eval "set -- \\"\\$@\\" \\"\\$GPUPOOL_TRIAL_${GPUPOOL_ARRAY_INDEX}_${part}\\""
  part=$((part + 1))
done
exec "$@"
"""


@dataclass(frozen=True)
class _Parameter:
    """A parameter: its choices, or the range of a random one."""

    name: str
    choices: tuple[str, ...]
    low: float = 0.0
    high: float = 0.0
    is_log: bool = False

    def draw(self, source: random.Random) -> str:
        if self.choices:
            return source.choice(self.choices)
        if self.is_log:
            value = math.exp(source.uniform(math.log(self.low), math.log(self.high)))
        else:
            value = source.uniform(self.low, self.high)
        return f"{value:.{_DIGITS}g}"


def list_trials(
    parameters: Sequence[str], method: str, trials: int | None, seed: int, argument: str
) -> list[list[str]]:
    """Return the arguments of each job.

    Args:
        parameters: `lr=0.1,0.01` lists choices; `lr=0.0001..0.1` is a range and
            `lr=log:0.0001..0.1` one of which each decade is as likely.
        method: grid: each combination; random: so many random ones.
        trials: Jobs of random; None for grid.
        seed: The same one draws the same.
        argument: Form of an argument, as `--{name}={value}`.

    Raises:
        ValueError: What is wrong, with the numbers.
    """
    found = [_parse(text) for text in parameters]
    names = [parameter.name for parameter in found]
    if not found:
        raise ValueError("a sweep needs a parameter, as lr=0.1,0.01")
    if len(set(names)) < len(names):
        raise ValueError(f"a parameter is named twice: {', '.join(names)}")
    rows = _list_grid(found, trials) if method == "grid" else _draw_rows(found, trials, seed)
    arguments = [_write_row(argument, names, row) for row in rows]
    size = sum(map(_measure_row, arguments))
    if size > MOST_BYTES:
        raise ValueError(f"the arguments have {size} bytes, the most is {MOST_BYTES}")
    return arguments


def build_environment(trials: Sequence[Sequence[str]]) -> dict[str, str]:
    """Return the variables from which `SCRIPT` reads."""
    variables = {"GPUPOOL_TRIAL_PARTS": str(len(trials[0]))}
    for number, row in enumerate(trials):
        for part, text in enumerate(row):
            variables[f"GPUPOOL_TRIAL_{number}_{part}"] = text
    return variables


def wrap_command(argv: Sequence[str]) -> list[str]:
    """Return the command to which each job adds its arguments."""
    return ["sh", "-c", SCRIPT, "gpupool-sweep", *argv]


def _list_grid(parameters: Sequence[_Parameter], trials: int | None) -> list[tuple[str, ...]]:
    ranges = [parameter.name for parameter in parameters if not parameter.choices]
    if ranges:
        raise ValueError(f"{ranges[0]} is a range, which only method random can draw from")
    choices = [parameter.choices for parameter in parameters]
    size = math.prod(map(len, choices))
    if size > MOST_TRIALS:
        raise ValueError(f"the grid has {size} combinations, the most is {MOST_TRIALS}")
    if trials is not None and trials < size:
        raise ValueError(f"the grid has {size} combinations and trials is {trials}")
    return list(itertools.product(*choices))


def _draw_rows(
    parameters: Sequence[_Parameter], trials: int | None, seed: int
) -> list[tuple[str, ...]]:
    if trials is None:
        raise ValueError("method random needs a number of trials")
    if not 1 <= trials <= MOST_TRIALS:
        raise ValueError(f"got {trials} trials, expected 1 to {MOST_TRIALS}")
    source = random.Random(seed)
    rows = list[tuple[str, ...]]()
    for _ in range(trials):
        rows.append(tuple([parameter.draw(source) for parameter in parameters]))
    return rows


def _parse(text: str) -> _Parameter:
    name, equals, right = text.partition("=")
    if not equals or not _NAME.fullmatch(name.strip()) or not right.strip():
        raise ValueError(f"got {text[:80]!r}, expected a parameter like lr=0.1,0.01")
    is_log = right.startswith("log:")
    low, dots, high = right.removeprefix("log:").partition("..")
    if not dots:
        if is_log:
            raise ValueError(f"got {text[:80]!r}, expected a range like {name}=log:0.0001..0.1")
        return _Parameter(name.strip(), tuple(part.strip() for part in right.split(",")))
    try:
        first = float(low)
        last = float(high)
    except ValueError as error:
        raise ValueError(f"got {text[:80]!r}, expected a range like {name}=0.1..0.9") from error
    # Not a number compares with nothing.
    if not (math.isfinite(first) and math.isfinite(last) and first < last):
        raise ValueError(f"{name}: got {low}..{high}, expected a smaller and a larger number")
    if is_log and first <= 0:
        raise ValueError(f"{name}: got log:{low}..{high}, expected a range above 0")
    return _Parameter(name.strip(), (), first, last, is_log)


def _write_row(form: str, names: Sequence[str], row: Sequence[str]) -> list[str]:
    found = list[str]()
    for name, value in zip(names, row, strict=True):
        # The value last: a value with `{name}` in it stays what it is.
        found.append(form.replace("{name}", name, 1).replace("{value}", value, 1))
    return found


def _measure_row(row: Sequence[str]) -> int:
    """Return the bytes of a job's arguments in the environment, with the names of the variables."""
    return sum(len(text.encode()) + _NAME_BYTES for text in row)
