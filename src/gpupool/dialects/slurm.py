"""Slurm: the `#SBATCH` lines of a job script.

Source: slurm.schedmd.com: sbatch, gres (gpu, shard, mps), gres.conf. `--mem-per-gpu` is main memory of the node per
card, not the card's; a shard fences nothing there; `mps:N` is N of the card's configured count.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gpupool.base.errors import BadManifest, Contradiction, FactMissing, ForeignValue, NotExpressible
from gpupool.base.units import WHOLE
from gpupool.dialects import amounts, facts, models, slurm_values
from gpupool.dialects.batch import JobClaim
from gpupool.dialects.contract import Ask, Name, Select, Where
from gpupool.dialects.pod import Word
from gpupool.model.claim import Sharing

MARK = "#SBATCH"
TITLE, SOURCE = "Slurm", "https://slurm.schedmd.com/sbatch.html"
_SHORT = {
    "J": "job-name", "t": "time", "p": "partition", "A": "account", "a": "array", "N": "nodes", "n": "ntasks",
    "c": "cpus-per-task", "G": "gpus", "q": "qos", "d": "dependency", "C": "constraint", "w": "nodelist",
    "x": "exclude", "o": "output", "e": "error", "i": "input", "D": "chdir", "L": "licenses", "M": "clusters",
    "b": "begin", "m": "distribution", "s": "oversubscribe", "H": "hold", "O": "overcommit", "W": "wait", "Q": "quiet",
    "v": "verbose",
}  # fmt: skip
_FLAGS = {
    "exclusive", "requeue", "no-requeue", "hold", "oversubscribe", "overcommit", "wait", "quiet", "verbose",
    "contiguous", "spread-job", "use-min-nodes", "reboot", "nice", "get-user-env", "parsable", "kill-on-invalid-dep",
}  # fmt: skip
_CARDS = ("gres", "gpus", "gpus-per-node", "gpus-per-task")
_REFUSED = {
    "dependency": "jobs are not started after one another here",
    "begin": "a job starts when there is room",
    "exclude": "nodes are not refused by name",
}

#: What `understand` reads; every other option is named in a note, so that none is lost without a word.
_READ = {
    *_CARDS, *_REFUSED, "nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "mem", "mem-per-cpu", "time", "array",
    "job-name", "account", "partition", "requeue", "no-requeue",
}  # fmt: skip
_OUTPUT = "the pool keeps what a job writes: gpupool logs JOB"
_MAIL = "the pool sends no mail: gpupool events --follow"
_INSTEAD = {
    "--output": _OUTPUT,
    "--error": _OUTPUT,
    "--mail-type": _MAIL,
    "--mail-user": _MAIL,
    "--chdir": "a job runs in the directory that it is submitted from",
    "--export": "a job gets the environment that it is submitted with",
    "--hold": "a job starts when there is room",
}

NAMES = tuple(
    Name(f"--{key}", Where.OPTION, values, meaning)
    for key, values, meaning in (
        ("gres=gpu[:TYPE]:N", "integer", "so many whole cards of each node"),
        ("gres=shard:N", "integer", "N of `slurm_shards_per_card` of one card; fenced here"),
        ("gres=mps:N", "integer", "N of `slurm_mps_per_card` (100 is guessed) of one card's compute and memory"),
        ("gpus=[TYPE:]N", "integer", "over all nodes; they are one node where no number of nodes is said"),
        ("gpus-per-node=[TYPE:]N", "integer", "whole cards of each node"),
        ("gpus-per-task=[TYPE:]N", "integer", "whole cards times the tasks of a node"),
        ("nodes=N", "integer", "a gang of so many members"),
        ("cpus-per-task=N, ntasks=N", "integer", "processors of each node"),
        ("mem, mem-per-cpu, mem-per-gpu", "MiB, or with K M G T", "main memory of each node; no card's memory"),
        ("time", "minutes, M:S, H:M:S, D-H[:M[:S]]", "end the job after that"),
        ("array", "0-15, 1,3,5, 0-9:2", "so many jobs; they find 0 to N-1 in GPUPOOL_ARRAY_INDEX"),
        ("job-name, account, requeue", "", "name, project, requeue"),
        ("partition, qos", "name", "noted: what a tenant may have is its quota's to say"),
        ("constraint", "feature", "noted: choose nodes by label"),
        ("dependency, begin, exclude", "", "refused: nothing here keeps that promise"),
    )
)


def understand(script: str, known: facts.NodeFacts = facts.UNKNOWN) -> JobClaim:
    """What a script's `#SBATCH` lines ask for. Raises BadManifest's classes and NotExpressible; `path` is the line."""
    options = dict(_options(script))
    if not any(key in options for key in _CARDS):
        raise BadManifest(
            f"no line of the script asks for a card: none of {', '.join('--' + key for key in _CARDS)}",
            hint=f"add it, e.g. {MARK} --gres=gpu:1",
        )
    for key, why in _REFUSED.items():
        if key in options:
            raise NotExpressible(f"{options[key]}: {why}", hint="leave the line out", path=options[key].path)
    nodes, guesses = _nodes(options)
    job = _asked(options, nodes, known)
    return _described(options, replace(job, members=nodes, guesses=(*guesses, *job.guesses)), _notes(options, script))


def _options(script: str) -> Iterator[tuple[str, Word]]:
    """Key and value of each option; Slurm itself stops at the first command, and the last of two equal ones counts."""
    for number, line in enumerate(script.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            return
        if not line.startswith(MARK):
            continue
        try:
            words = shlex.split(line.removeprefix(MARK), comments=True)
        except ValueError as error:
            raise BadManifest(f"{line.strip()}: {error}", hint="close the quote", path=(number,)) from None
        yield from _pairs(words, number)


def _pairs(words: Sequence[str], line: int) -> Iterator[tuple[str, Word]]:
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word in ("-", "--"):
            raise BadManifest(f"{word!r} is no option of sbatch", path=(line,))
        key, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("--"):
            key, value = _SHORT.get(word[1], word[1]), word[2:].removeprefix("=")
            equals = value
        if not equals and key not in _FLAGS:
            if not rest:
                raise BadManifest(f"{word} needs a value", path=(line,))
            value = rest.pop(0)
        yield key, Word(f"--{key}", value, (line,))


def _nodes(options: Mapping[str, Word]) -> tuple[int, tuple[str, ...]]:
    word = options.get("nodes")
    if word is None:
        return 1, ()
    low, dash, high = str(word.value).partition("-")
    count = amounts.integer(Word(word.key, low, word.path), 1, 10_000)
    return count, (f"{word}: the smaller number",) if dash and high != low else ()


def _asked(options: Mapping[str, Word], nodes: int, known: facts.NodeFacts) -> JobClaim:
    gres = options.get("gres")
    parts = {} if gres is None else dict(_gres(gres))
    soft = [kind for kind in ("shard", "mps") if kind in parts]
    cards = {key: options[key] for key in _CARDS[1:] if key in options}
    if soft and (len(soft) > 1 or "gpu" in parts or cards):
        raise Contradiction(
            f"{gres}: whole cards and parts of cards exclude each other",
            hint="ask for gpu or for shard",
            path=gres.path if gres else (),
        )
    if gres is not None and soft:
        ask = _part(gres, soft[0], parts[soft[0]], known)
    else:
        ask = _whole(options, gres, parts, cards, nodes)
    return JobClaim(ask.completed())


def _gres(word: Word) -> Iterator[tuple[str, tuple[str | None, int]]]:
    """Kind, type and number of each generic resource; others than cards are refused."""
    for part in amounts.words(word):
        kind, *rest = part.removeprefix("gres/").split(":")
        if kind not in ("gpu", "shard", "mps"):
            raise NotExpressible(f"{word}: {kind} is no kind of card", hint="leave it out", path=word.path)
        number = rest.pop() if rest and re.fullmatch(r"[0-9]+", rest[-1]) else "1"
        yield kind, (rest[0] if rest else None, amounts.integer(Word(word.key, number, word.path)))


def _part(gres: Word, kind: str, asked: tuple[str | None, int], known: facts.NodeFacts) -> Ask:
    model, count = asked
    guesses: tuple[str, ...] = ()
    per_card = known.slurm_shards_per_card if kind == "shard" else known.slurm_mps_per_card
    if per_card is None and kind == "mps":
        per_card, guesses = 100, ("a card's count of mps is not known: 100, so a percentage",)
    if per_card is None:
        raise FactMissing(
            f"{gres}: how large a part this is depends on the shards of a card",
            hint="say it in a file of facts: `slurm_shards_per_card: 16`",
            path=gres.path,
            fact="slurm_shards_per_card",
        )
    if count > per_card:
        raise ForeignValue(f"{gres}: a card has {per_card} of them, and a job one card", path=gres.path)
    rule = f"slurm: {gres}: {count} of {per_card} of one card"
    note = "nothing fences it there; here compute and memory are both kept" if kind == "shard" else "as MPS gives it"
    usual = Sharing.BURST if kind == "shard" else Sharing.FIXED
    select = Select(models=models.meant([model])) if model else Select()
    milli = max(1, WHOLE * count // per_card)
    return Ask(1, milli, usual=usual, select=select, rules=(rule,), guesses=guesses, notes=(note,))


def _whole(
    options: Mapping[str, Word],
    gres: Word | None,
    parts: Mapping[str, tuple[str | None, int]],
    cards: Mapping[str, Word],
    nodes: int,
) -> Ask:
    """Whole cards of each node, from whichever option says them; two of them have to agree."""
    found: dict[str, tuple[str | None, int, Word]] = {}
    if gres is not None and "gpu" in parts:
        found["gres"] = (*parts["gpu"], gres)
    for key, word in cards.items():
        model, number = _typed(word)
        found[key] = (model, _per_node(key, number, word, options, nodes), word)
    counts = {count for _, count, _ in found.values()}
    if len(counts) > 1:
        told = " and ".join(f"{word} ({count} of each node)" for _, count, word in found.values())
        raise Contradiction(f"{told} differ", hint="leave one of them out", path=next(iter(found.values()))[2].path)
    wanted = [model for model, _, _ in found.values() if model]
    rules = tuple(f"slurm: {word}: {count} whole cards of each node" for _, count, word in found.values())
    return Ask(counts.pop(), WHOLE, select=Select(models=models.meant(wanted)), rules=rules)


def _typed(word: Word) -> tuple[str | None, int]:
    """`4`, `a100:4`."""
    model, _, number = str(word.value).rpartition(":")
    return model or None, amounts.integer(Word(word.key, number, word.path))


def _per_node(key: str, number: int, word: Word, options: Mapping[str, Word], nodes: int) -> int:
    if key == "gpus-per-node":
        return number
    if key == "gpus-per-task":
        number *= _tasks(options, nodes) * nodes
    if number % nodes:
        raise ForeignValue(
            f"{word} is not the same on each of {nodes} nodes", hint="use --gpus-per-node", path=word.path
        )
    return number // nodes


def _tasks(options: Mapping[str, Word], nodes: int) -> int:
    """Of each node, rounded up."""
    if "ntasks-per-node" in options:
        return amounts.integer(options["ntasks-per-node"], 1, 10_000)
    return -(-amounts.integer(options["ntasks"], 1, 1_000_000) // nodes) if "ntasks" in options else 1


def _described(options: Mapping[str, Word], job: JobClaim, notes: tuple[str, ...]) -> JobClaim:
    """With everything that is not about cards."""
    text = {key: str(options[key].value) for key in ("job-name", "account", "partition") if key in options}
    cpus = amounts.integer(options["cpus-per-task"], 1, 10_000) if "cpus-per-task" in options else 0
    processors = (cpus or 1) * _tasks(options, job.members) if {"cpus-per-task", "ntasks"} & set(options) else 0
    array = options.get("array")
    return replace(
        job,
        name=text.get("job-name"),
        cpu_milli=processors * 1000,
        host_bytes=_memory(options, job, processors or 1),
        max_seconds=slurm_values.seconds(options["time"]) if "time" in options else None,
        array=None if array is None else slurm_values.indices(array),
        project=text.get("account"),
        queue=text.get("partition"),
        requeue="requeue" in options,
        notes=notes,
    )


def _memory(options: Mapping[str, Word], job: JobClaim, processors: int) -> int:
    """Main memory of a node: 0 is all of it, for Slurm; here no particular amount."""
    for key, times in (("mem", 1), ("mem-per-gpu", job.ask.count), ("mem-per-cpu", processors)):
        if key in options:
            return slurm_values.size(options[key]) * times
    return 0


def _notes(options: Mapping[str, Word], script: str) -> tuple[str, ...]:
    told = {
        "array": "its jobs find their number, from 0 on, in GPUPOOL_ARRAY_INDEX",
        "constraint": "choose nodes by label: --label KEY=VALUE",
        "nodelist": "choose nodes by label: --label KEY=VALUE",
        "qos": "what a tenant may have is its quota's to say",
        "exclusive": "cards are asked for, not nodes",
        "mem-per-gpu": "main memory of the node for each card, not memory of the card",
    }
    notes = [f"{options[key]}: {text}" for key, text in told.items() if key in options]
    dropped = [options[key] for key in options if key not in _READ and key not in told]
    notes += [f"{word}: left out; {_INSTEAD.get(word.key, 'nothing here does that')}" for word in dropped]
    if "array" in options and "%" in str(options["array"].value):
        notes.append("how many of an array run at once is the quota's to say")
    if re.search(r"^\s*srun\s", script, re.MULTILINE):
        notes.append("the script calls srun, which is Slurm's: let it start its processes itself (mpirun, torchrun)")
    if "SLURM_" in script:
        notes.append("the script reads SLURM_ variables, which are not set: docs/how-to/gangs.md has those that are")
    return tuple(notes)
