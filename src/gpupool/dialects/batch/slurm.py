"""Slurm: the `#SBATCH` lines of a job script.

Source: slurm.schedmd.com: sbatch, gres (gpu, shard, mps), gres.conf. `--mem-per-gpu` is main memory
of the node per card, not the card's; a shard fences nothing there; `mps:N` is N of the card's
configured count.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from gpupool.base.errors import (
    BadManifest,
    ContradictoryManifest,
    FactMissing,
    ForeignValue,
    NotExpressible,
)
from gpupool.base.units import WHOLE
from gpupool.dialects import amounts, facts, models
from gpupool.dialects.batch import slurm_values
from gpupool.dialects.batch.script import JobClaim
from gpupool.dialects.batch.slurm_options import (
    CARD_OPTIONS,
    MARK,
    NAMES,
    READ_OPTIONS,
    REFUSED_OPTIONS,
    REPLACEMENTS,
    read_options,
    read_typed_options,
)
from gpupool.dialects.contract import CardFilter, ContainerAsk
from gpupool.dialects.pod import PlacedWord
from gpupool.model.claim import SharingKind

TITLE = "Slurm"
SOURCE = "https://slurm.schedmd.com/sbatch.html"

__all__ = ["MARK", "NAMES", "SOURCE", "TITLE", "understand_script"]


def understand_script(
    script: str,
    known: facts.NodeFacts = facts.UNKNOWN,
    *,
    typed: Sequence[str] = (),
    variables: Collection[str] = (),
) -> JobClaim:
    """What a script's `#SBATCH` lines ask for.

    Args:
        typed: Options of sbatch's command line, which replace those of the script.
        variables: Names of Slurm's that the job will have.

    Raises:
        BadManifest, NotExpressible: `path` is the line, empty for what was typed.
    """
    options = dict(read_options(script)) | dict(read_typed_options(typed))
    if not any(key in options for key in CARD_OPTIONS):
        raise BadManifest(
            f"no line of the script asks for a card: none of {', '.join('--' + key for key in CARD_OPTIONS)}",
            hint=f"add it, e.g. {MARK} --gres=gpu:1",
        )
    for key, why in REFUSED_OPTIONS.items():
        if key in options:
            raise NotExpressible(
                f"{options[key]}: {why}", hint="leave the line out", path=options[key].path
            )
    nodes, guesses = _read_nodes(options)
    job = _build_job(options, nodes, known)
    return _add_settings(
        options,
        replace(job, members=nodes, guesses=(*guesses, *job.guesses)),
        _list_notes(options, script, variables),
    )


def _read_nodes(options: Mapping[str, PlacedWord]) -> tuple[int, tuple[str, ...]]:
    word = options.get("nodes")
    if word is None:
        return 1, ()
    low, dash, high = str(word.value).partition("-")
    count = amounts.parse_integer(PlacedWord(word.key, low, word.path), 1, 10_000)
    return count, (f"{word}: the smaller number",) if dash and high != low else ()


def _build_job(options: Mapping[str, PlacedWord], nodes: int, known: facts.NodeFacts) -> JobClaim:
    gres = options.get("gres")
    parts = {} if gres is None else dict(_read_gres(gres))
    soft = [kind for kind in ("shard", "mps") if kind in parts]
    cards = {}
    for key in CARD_OPTIONS[1:]:
        if key in options:
            cards[key] = options[key]
    if soft and (len(soft) > 1 or "gpu" in parts or cards):
        raise ContradictoryManifest(
            f"{gres}: whole cards and parts of cards exclude each other",
            hint="ask for gpu or for shard",
            path=gres.path if gres else (),
        )
    if gres is not None and soft:
        ask = _read_part(gres, soft[0], parts[soft[0]], known)
    else:
        ask = _read_whole_cards(options, gres, parts, cards, nodes)
    return JobClaim(ask.complete())


def _read_gres(word: PlacedWord) -> Iterator[tuple[str, tuple[str | None, int]]]:
    """Kind, type and number of each generic resource; others than cards are refused."""
    for part in amounts.read_list(word):
        kind, *rest = part.removeprefix("gres/").split(":")
        if kind not in ("gpu", "shard", "mps"):
            raise NotExpressible(
                f"{word}: {kind} is no kind of card", hint="leave it out", path=word.path
            )
        number = rest.pop() if rest and re.fullmatch(r"[0-9]+", rest[-1]) else "1"
        yield (
            kind,
            (
                rest[0] if rest else None,
                amounts.parse_integer(PlacedWord(word.key, number, word.path)),
            ),
        )


def _read_part(
    gres: PlacedWord, kind: str, asked: tuple[str | None, int], known: facts.NodeFacts
) -> ContainerAsk:
    model, count = asked
    guesses: tuple[str, ...] = ()
    per_card = known.slurm_shards_per_card if kind == "shard" else known.slurm_mps_per_card
    if per_card is None and kind == "mps":
        per_card = 100
        # With a count of 100 for each card, N of mps is a percentage.
        guesses = ("a card's count of mps is not known: 100, so a percentage",)
    if per_card is None:
        raise FactMissing(
            f"{gres}: how large a part this is depends on the shards of a card",
            hint="say it in a file of facts: `slurm_shards_per_card: 16`",
            path=gres.path,
            fact="slurm_shards_per_card",
        )
    if count > per_card:
        raise ForeignValue(
            f"{gres}: a card has {per_card} of them, and a job one card", path=gres.path
        )
    rule = f"slurm: {gres}: {count} of {per_card} of one card"
    note = (
        "nothing fences it there; here compute and memory are both kept"
        if kind == "shard"
        else "as MPS gives it"
    )
    # There as here one user at a time has the MPS server of a card.
    usual = SharingKind.BURST if kind == "shard" else SharingKind.MPS
    select = CardFilter(models=models.list_models([model])) if model else CardFilter()
    milli = max(1, WHOLE * count // per_card)
    return ContainerAsk(
        1, milli, usual=usual, select=select, rules=(rule,), guesses=guesses, notes=(note,)
    )


def _read_whole_cards(
    options: Mapping[str, PlacedWord],
    gres: PlacedWord | None,
    parts: Mapping[str, tuple[str | None, int]],
    cards: Mapping[str, PlacedWord],
    nodes: int,
) -> ContainerAsk:
    """Whole cards of each node, from whichever option says them; two of them have to agree."""
    found: dict[str, tuple[str | None, int, PlacedWord]] = {}
    if gres is not None and "gpu" in parts:
        found["gres"] = (*parts["gpu"], gres)
    for key, word in cards.items():
        model, number = _parse_typed(word)
        found[key] = (model, _per_node(key, number, word, options, nodes), word)
    counts = {count for _, count, _ in found.values()}
    if len(counts) > 1:
        told = " and ".join(f"{word} ({count} of each node)" for _, count, word in found.values())
        raise ContradictoryManifest(
            f"{told} differ", hint="leave one of them out", path=next(iter(found.values()))[2].path
        )
    # Types of several options may all be named: a card may then be any of them.
    wanted = [model for model, _, _ in found.values() if model]
    rules = tuple(
        f"slurm: {word}: {count} whole cards of each node" for _, count, word in found.values()
    )
    return ContainerAsk(
        counts.pop(), WHOLE, select=CardFilter(models=models.list_models(wanted)), rules=rules
    )


def _parse_typed(word: PlacedWord) -> tuple[str | None, int]:
    """`4`, `a100:4`."""
    model, _, number = str(word.value).rpartition(":")
    return model or None, amounts.parse_integer(PlacedWord(word.key, number, word.path))


def _per_node(
    key: str, number: int, word: PlacedWord, options: Mapping[str, PlacedWord], nodes: int
) -> int:
    if key == "gpus-per-node":
        return number
    # Slurm counts tasks over all nodes.
    if key == "gpus-per-task":
        number *= _count_tasks(options, nodes) * nodes
    if number % nodes:
        raise ForeignValue(
            f"{word} is not the same on each of {nodes} nodes",
            hint="use --gpus-per-node",
            path=word.path,
        )
    return number // nodes


def _count_tasks(options: Mapping[str, PlacedWord], nodes: int) -> int:
    """Of each node, rounded up."""
    if "ntasks-per-node" in options:
        return amounts.parse_integer(options["ntasks-per-node"], 1, 10_000)
    return (
        -(-amounts.parse_integer(options["ntasks"], 1, 1_000_000) // nodes)
        if "ntasks" in options
        else 1
    )


def _add_settings(
    options: Mapping[str, PlacedWord], job: JobClaim, notes: tuple[str, ...]
) -> JobClaim:
    """With everything that is not about cards."""
    text = {}
    for key in ("job-name", "account", "partition"):
        if key in options:
            text[key] = str(options[key].value)
    cpus = (
        amounts.parse_integer(options["cpus-per-task"], 1, 10_000)
        if "cpus-per-task" in options
        else 0
    )
    processors = (
        (cpus or 1) * _count_tasks(options, job.members)
        if {"cpus-per-task", "ntasks"} & set(options)
        else 0
    )
    array = options.get("array")
    return replace(
        job,
        name=text.get("job-name"),
        cpu_milli=processors * 1000,
        host_bytes=_read_memory(options, job, processors or 1),
        max_seconds=slurm_values.parse_seconds(options["time"]) if "time" in options else None,
        array=None if array is None else slurm_values.count_indices(array),
        project=text.get("account"),
        queue=text.get("partition"),
        requeue="requeue" in options,
        after=(
            slurm_values.parse_dependencies(options["dependency"])
            if "dependency" in options
            else ()
        ),
        notes=notes,
    )


def _read_memory(options: Mapping[str, PlacedWord], job: JobClaim, processors: int) -> int:
    """Main memory of a node: 0 is all of it, for Slurm; here no particular amount."""
    for key, times in (("mem", 1), ("mem-per-gpu", job.ask.count), ("mem-per-cpu", processors)):
        if key in options:
            return slurm_values.parse_size(options[key]) * times
    return 0


def _list_notes(
    options: Mapping[str, PlacedWord], script: str, variables: Collection[str]
) -> tuple[str, ...]:
    told = {
        "constraint": "choose nodes by label: --label KEY=VALUE",
        "nodelist": "choose nodes by label: --label KEY=VALUE",
        "qos": "what a tenant may have is its quota's to say",
        "exclusive": "cards are asked for, not nodes",
        "mem-per-gpu": "main memory of the node for each card, not memory of the card",
    }
    if "SLURM_ARRAY_TASK_ID" not in variables:
        told = {"array": "its jobs find their number, from 0 on, in GPUPOOL_ARRAY_INDEX"} | told
    notes = []
    for key, text in told.items():
        if key in options:
            notes.append(f"{options[key]}: {text}")
    dropped = []
    for key in options:
        if key not in READ_OPTIONS and key not in told:
            dropped.append(options[key])
    notes += [
        f"{word}: left out; {REPLACEMENTS.get(word.key, 'nothing here does that')}"
        for word in dropped
    ]
    if "array" in options and "%" in str(options["array"].value):
        notes.append("how many of an array run at once is the quota's to say")
    if re.search(r"^\s*srun\s", script, re.MULTILINE):
        notes.append(
            "the script calls srun, which is Slurm's: let it start its processes itself (mpirun, torchrun)"
        )
    if missing := sorted(set(re.findall(r"\bSLURM_[A-Z0-9_]+", script)) - set(variables)):
        notes.append(
            f"the script reads {', '.join(missing)}: not set here; docs/how-to/gangs.md has what is"
        )
    return tuple(notes)
