"""The options of sbatch: those that have a meaning here, and how a script's lines spell them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from gpupool.base.errors import BadManifest
from gpupool.dialects.contract import KnownWord, WordPlace
from gpupool.dialects.pod import PlacedWord

MARK = "#SBATCH"
#: Options of one letter, as sbatch(1) lists them.
SHORT_OPTIONS = {
    "J": "job-name", "t": "time", "p": "partition", "A": "account", "a": "array", "N": "nodes", "n": "ntasks",
    "c": "cpus-per-task", "G": "gpus", "q": "qos", "d": "dependency", "C": "constraint", "w": "nodelist",
    "x": "exclude", "o": "output", "e": "error", "i": "input", "D": "chdir", "L": "licenses", "M": "clusters",
    "b": "begin", "m": "distribution", "s": "oversubscribe", "H": "hold", "O": "overcommit", "W": "wait", "Q": "quiet",
    "v": "verbose",
}  # fmt: skip
#: Options without a value: the next word is not theirs.
FLAGS = {
    "exclusive", "requeue", "no-requeue", "hold", "oversubscribe", "overcommit", "wait", "quiet", "verbose",
    "contiguous", "spread-job", "use-min-nodes", "reboot", "nice", "get-user-env", "parsable", "kill-on-invalid-dep",
}  # fmt: skip
#: Options that ask for cards; a script without any of them is not for a GPU pool.
CARD_OPTIONS = ("gres", "gpus", "gpus-per-node", "gpus-per-task")
#: Options whose loss would change what the job does, so they are refused and not noted.
REFUSED_OPTIONS = {
    "begin": "a job starts when there is room",
    "exclude": "nodes are not refused by name",
}

#: What `slurm.understand_script` reads; every other option is named in a note, so that none is lost without a
#: word.
READ_OPTIONS = {
    *CARD_OPTIONS, *REFUSED_OPTIONS, "nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "mem", "mem-per-cpu",
    "dependency", "time", "array", "job-name", "account", "partition", "requeue", "no-requeue",
}  # fmt: skip
_OUTPUT = "the pool keeps what a job writes: gpupool logs JOB"
_MAIL = "who wants mail says so once: gpupool notify add"
#: What to use here instead of an option that is left out.
REPLACEMENTS = {
    "--output": _OUTPUT,
    "--error": _OUTPUT,
    "--mail-type": _MAIL,
    "--mail-user": _MAIL,
    "--chdir": "a job runs in the directory that it is submitted from",
    "--export": "a job gets the environment that it is submitted with",
    "--hold": "a job starts when there is room",
}

NAMES = tuple(
    KnownWord(f"--{key}", WordPlace.OPTION, values, meaning)
    for key, values, meaning in (
        ("gres=gpu[:TYPE]:N", "integer", "so many whole cards of each node"),
        ("gres=shard:N", "integer", "N of `slurm_shards_per_card` of one card; fenced here"),
        (
            "gres=mps:N",
            "integer",
            "N of `slurm_mps_per_card` (100 is guessed) of one card's compute and memory",
        ),
        (
            "gpus=[TYPE:]N",
            "integer",
            "over all nodes; they are one node where no number of nodes is said",
        ),
        ("gpus-per-node=[TYPE:]N", "integer", "whole cards of each node"),
        ("gpus-per-task=[TYPE:]N", "integer", "whole cards times the tasks of a node"),
        ("nodes=N", "integer", "a gang of so many members"),
        ("cpus-per-task=N, ntasks=N", "integer", "processors of each node"),
        (
            "mem, mem-per-cpu, mem-per-gpu",
            "MiB, or with K M G T",
            "main memory of each node; no card's memory",
        ),
        ("time", "minutes, M:S, H:M:S, D-H[:M[:S]]", "end the job after that"),
        ("array", "0-15, 1,3,5, 0-9:2", "so many jobs; they find 0 to N-1 in GPUPOOL_ARRAY_INDEX"),
        ("job-name, account, requeue", "", "name, project, requeue"),
        ("partition, qos", "name", "noted: what a tenant may have is its quota's to say"),
        ("constraint", "feature", "noted: choose nodes by label"),
        (
            "dependency=TYPE:JOB[:JOB][,TYPE:JOB]",
            "afterok, afterany, afternotok",
            "starts after these ends: --after JOB:ok, :any, :fail; `?` and other types are refused",
        ),
        ("begin, exclude", "", "refused: nothing here keeps that promise"),
    )
)


def read_options(script: str) -> Iterator[tuple[str, PlacedWord]]:
    """Key and value of each option; Slurm itself stops at the first command, and the last of two
    equal ones counts."""
    for number, line in enumerate(script.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            return
        if not line.startswith(MARK):
            continue
        try:
            words = shlex.split(line.removeprefix(MARK), comments=True)
        except ValueError as error:
            raise BadManifest(
                f"{line.strip()}: {error}", hint="close the quote", path=(number,)
            ) from None
        yield from _split_options(words, (number,))


def read_typed_options(words: Sequence[str]) -> Iterator[tuple[str, PlacedWord]]:
    """Key and value of each option of a command line; a script's lines give way to them."""
    yield from _split_options(words, ())


def find_script(words: Sequence[str]) -> int:
    """The position of the first word of a command line that belongs to no option of sbatch."""
    position = 0
    while position < len(words) and words[position].startswith("-") and words[position] != "-":
        key, has_value, _ = _split_word(words[position])
        position += 1 if has_value or key in FLAGS else 2
    return min(position, len(words))


def _split_options(words: Sequence[str], path: tuple[int, ...]) -> Iterator[tuple[str, PlacedWord]]:
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word in ("-", "--"):
            raise BadManifest(f"{word!r} is no option of sbatch", path=path)
        key, has_value, value = _split_word(word)
        if not has_value and key not in FLAGS:
            if not rest:
                raise BadManifest(f"{word} needs a value", path=path)
            value = rest.pop(0)
        yield key, PlacedWord(f"--{key}", value, path)


def _split_word(word: str) -> tuple[str, bool, str]:
    """Split `--key=value` and `-kvalue`: the long key, whether a value is in the word, the value."""
    if word.startswith("--"):
        key, equals, value = word.removeprefix("--").partition("=")
        return key, bool(equals), value
    value = word[2:].removeprefix("=")
    return SHORT_OPTIONS.get(word[1], word[1]), bool(value), value
