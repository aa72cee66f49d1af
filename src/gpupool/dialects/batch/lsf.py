"""IBM Spectrum LSF: the `#BSUB` lines of a job script, or a `bsub` line.

Source: ibm.com/docs/en/spectrum-lsf/10.1.0, `bsub -gpu` (defaults
`num=1:mode=shared:mps=no:j_exclusive=no`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace

from gpupool.base.errors import BadManifest, ForeignValue, NotExpressible
from gpupool.base.units import WHOLE
from gpupool.dialects import amounts, models
from gpupool.dialects.batch import slurm_values
from gpupool.dialects.batch.script import JobClaim
from gpupool.dialects.contract import NO_COMPUTE, CardFilter, ContainerAsk, KnownWord, WordPlace
from gpupool.dialects.pod import PlacedWord

MARK = "#BSUB"
TITLE = "IBM Spectrum LSF"
SOURCE = "https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=o-gpu"
#: Options without a value: the next word is not theirs.
_SWITCHES = frozenset({"-x", "-B", "-N", "-K", "-r", "-rn", "-H", "-I", "-Is", "-Ip"})
_KNOWN = frozenset(
    (
        "num",
        "mode",
        "mps",
        "j_exclusive",
        "aff",
        "block",
        "gpack",
        "gvendor",
        "gmodel",
        "gtile",
        "gmem",
        "glink",
        "mig",
    )
)
#: The compute mode of NVIDIA's driver that allows one process on a card.
_EXCLUSIVE = "exclusive_process"
NAMES = tuple(
    KnownWord(key, WordPlace.OPTION, values, meaning)
    for key, values, meaning in (
        ("-gpu num=N", "integer", "so many cards of each host; with `/task` refused"),
        (
            "-gpu gmem=SIZE",
            "MB, or with M G T",
            "memory on each card, in shared mode; no compute guaranteed",
        ),
        (
            "-gpu mode, j_exclusive",
            "`shared`, `exclusive_process`; `yes`, `no`",
            "exclusive: whole cards",
        ),
        ("-gpu gmodel=NAME", "name", "only cards of this model"),
        ("-gpu mig=SIZE", "", "refused: which profile is not said"),
        (
            "-gpu mps, aff, block, gpack, gtile, glink",
            "",
            "noted: cards are chosen by the pool's own rule",
        ),
        ("-n N", "integer", "processors"),
        ("-W [H:]M", "minutes", "end the job after that"),
        ("-J NAME[1-N], -P, -q, -r", "", "name and array, project, queue (noted), requeue"),
        ("-w CONDITION", "", "refused: jobs are not started after one another here"),
    )
)


def understand_script(script: str) -> JobClaim:
    """What the lines ask for. Raises BadManifest's classes and NotExpressible; `path` is the
    line."""
    options = dict(_read_options(script))
    gpu = options.get("-gpu")
    if gpu is None:
        raise BadManifest(
            "no line of the script asks for a card with -gpu",
            hint=f'add it, e.g. {MARK} -gpu "num=1"',
        )
    if "-w" in options:
        told = f"{options['-w']}: jobs are not started after one another here"
        raise NotExpressible(told, hint="leave the line out", path=options["-w"].path)
    ask, notes = _read_ask(gpu)
    return _add_settings(options, replace(JobClaim(ask.complete()), notes=notes))


def _read_options(script: str) -> Iterator[tuple[str, PlacedWord]]:
    for number, line in enumerate(script.splitlines(), 1):
        text = line.strip()
        if text.startswith(MARK):
            words = text.removeprefix(MARK)
        elif re.match(r"bsub\s", text):
            words = text.removeprefix("bsub")
        else:
            continue
        try:
            yield from _split_options(shlex.split(words, comments=True), number)
        except ValueError as error:
            raise BadManifest(f"{text}: {error}", hint="close the quote", path=(number,)) from None


def _split_options(words: list[str], line: int) -> Iterator[tuple[str, PlacedWord]]:
    while words and words[0].startswith("-"):
        key = words.pop(0)
        if key in _SWITCHES:
            yield key, PlacedWord(key, "", (line,))
        elif not words:
            raise BadManifest(f"{key} needs a value", path=(line,))
        else:
            yield key, PlacedWord(key, words.pop(0), (line,))


def _read_ask(gpu: PlacedWord) -> tuple[ContainerAsk, tuple[str, ...]]:
    given = {"num": "1", "mode": "shared", "j_exclusive": "no"} | _read_parts(gpu)
    if "mig" in given:
        raise NotExpressible(
            f"{gpu}: which MIG profile is meant is not said",
            hint="ask for a share with gmem",
            path=gpu.path,
        )
    count = amounts.parse_integer(
        PlacedWord("-gpu num", given["num"].removesuffix("/host"), gpu.path), 1, 1000
    )
    # Both keep other processes off the card, which only a whole card does here.
    exclusive = given["mode"] == _EXCLUSIVE or given["j_exclusive"] == "yes"
    select = (
        CardFilter(models=models.list_models([given["gmodel"]]))
        if "gmodel" in given
        else CardFilter()
    )
    told = f"lsf: -gpu {gpu.value}"
    notes = tuple(
        f"-gpu {key}: cards are chosen by the pool's own rule"
        for key in sorted(given)
        if key in _NOTED
    )
    if "gmem" not in given or exclusive:
        guess = (
            () if exclusive else ("mode shared says no size: whole cards; write gmem for a share",)
        )
        return ContainerAsk(
            count, WHOLE, select=select, rules=(f"{told}: whole cards",), guesses=guess
        ), notes
    size = slurm_values.parse_size(PlacedWord("-gpu gmem", given["gmem"], gpu.path))
    size = amounts.parse_size(PlacedWord("-gpu gmem", size, gpu.path))
    return ContainerAsk(
        count, memory_bytes=size, select=select, rules=(told,), guesses=(NO_COMPUTE,)
    ), notes


#: They choose among cards that would do, which the pool's own rule does here.
_NOTED = frozenset({"mps", "aff", "block", "gpack", "gtile", "glink"})


def _read_parts(gpu: PlacedWord) -> dict[str, str]:
    found = {}
    for part in str(gpu.value).split(":"):
        key, equals, value = part.strip().partition("=")
        # `-gpu -` is LSF's word for its defaults.
        if key == "-" and not equals:
            continue
        if key not in _KNOWN or not value:
            raise ForeignValue(
                f"{gpu}: {part!r} is not known",
                hint=f"one of: {', '.join(sorted(_KNOWN))}",
                path=gpu.path,
            )
        found[key] = value
    return found


def _add_settings(options: Mapping[str, PlacedWord], job: JobClaim) -> JobClaim:
    name, array = _parse_name(options.get("-J"))
    text = {}
    for key in ("-P", "-q"):
        if key in options:
            text[key] = str(options[key].value)
    return replace(
        job,
        name=name,
        array=array,
        cpu_milli=amounts.parse_integer(options["-n"], 1, 10_000) * 1000 if "-n" in options else 0,
        max_seconds=_parse_minutes(options["-W"]) if "-W" in options else None,
        project=text.get("-P"),
        queue=text.get("-q"),
        requeue="-r" in options,
    )


def _parse_name(word: PlacedWord | None) -> tuple[str | None, int | None]:
    """`train[1-16]` is an array of 16."""
    if word is None:
        return None, None
    found = re.fullmatch(r"([^\[]+)\[([0-9,:-]+)\](%[0-9]+)?", str(word.value))
    if found is None:
        return str(word.value), None
    return found.group(1), slurm_values.count_indices(
        PlacedWord(word.key, found.group(2), word.path)
    )


def _parse_minutes(word: PlacedWord) -> int:
    found = re.fullmatch(r"(?:([0-9]{1,4}):)?([0-9]{1,6})(?:/.*)?", str(word.value).strip())
    if found is None:
        raise ForeignValue(f"{word}: this is no time", hint="write 90 or 1:30", path=word.path)
    return (int(found.group(1) or 0) * 60 + int(found.group(2))) * 60
