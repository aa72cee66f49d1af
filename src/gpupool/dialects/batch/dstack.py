"""dstack: the resources of a run configuration, `gpu: nvidia:A10,A100:24GB..80GB:1..2` and its long
form.

Source: dstackai/dstack src/dstack/_internal/core/models/resources.py: a name begins with a letter,
memory has a unit, what is left is a count; sizes are powers of 1024. The memory is that of the
card, not a share of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gpupool.base.errors import BadManifest, ForeignValue, NotExpressible
from gpupool.base.units import GIB, WHOLE
from gpupool.dialects import amounts, models
from gpupool.dialects.batch.script import JobClaim
from gpupool.dialects.contract import CardFilter, ContainerAsk, KnownWord, WordPlace
from gpupool.dialects.pod import PlacedWord, read_mapping, read_sequence
from gpupool.model.catalogue import CATALOGUE, CardModel

TITLE = "dstack"
SOURCE = "https://dstack.ai/docs/concepts/tasks"
TYPES = ("task", "dev-environment", "service")
#: A first part with one of these names is the vendor and not a model.
_VENDORS = ("nvidia", "amd", "google", "tpu", "intel", "tenstorrent")
#: Vendors of the catalogue's models.
_OURS = ("nvidia", "amd")
_UNITS = {"mb": 1 / 1024, "gb": 1, "tb": 1024}
#: Drivers report up to 7 % less memory than a card's name promises: 22.5 GiB of a card of 24.
_SPARED = 0.93
_PATH = ("resources", "gpu")
#: Keys that do not change which cards a job gets: noted and left out.
_LEFT = ("max_duration", "env", "ports", "volumes", "image", "python")

NAMES = tuple(
    KnownWord(key, WordPlace.OPTION, values, meaning)
    for key, values, meaning in (
        (
            "resources.gpu",
            "`[VENDOR:][NAMES:][MEMORY:][COUNT]`, or those as keys",
            "whole cards of models that fit",
        ),
        ("resources.gpu COUNT", "2, `1..2`", "of a range the smaller number"),
        (
            "resources.gpu MEMORY",
            "`24GB`, `24GB..80GB`, `40GB..`",
            "only models with so much memory",
        ),
        ("resources.gpu compute_capability", "`8.0`", "only models that have it, or a higher one"),
        ("resources.gpu total_memory", "", "refused: memory is asked for per card"),
        (
            "resources.cpu, resources.memory",
            "4, `4..`, `32GB..`",
            "processors and main memory of the node",
        ),
        (
            "nodes, name, commands, max_duration",
            "",
            "a gang, the job's name, its command; the limit is noted",
        ),
    )
)


def is_configuration(document: object) -> bool:
    """Whether a document is one of dstack's: those of Kubernetes have a kind."""
    return (
        isinstance(document, Mapping) and "kind" not in document and document.get("type") in TYPES
    )


def understand_configuration(document: Mapping[str, Any]) -> tuple[JobClaim, tuple[str, ...]]:
    """What a configuration asks for, and its command. Raises BadManifest's classes and
    NotExpressible."""
    resources = read_mapping(document.get("resources"), ("resources",))
    if resources.get("gpu") is None:
        raise BadManifest(
            "the configuration asks for no card",
            hint="add resources: {gpu: 1}",
            path=("resources",),
        )
    ask, guesses = _read_ask(_read_spec(resources["gpu"]))
    said = (resources.get("cpu"), resources.get("memory"), document.get("nodes"))
    cpu, memory, nodes = (None if value is None else _take_lower(str(value)) for value in said)
    job = JobClaim(
        ask,
        None if document.get("name") is None else str(document["name"]),
        cpu_milli=0
        if cpu is None
        else amounts.parse_integer(PlacedWord("cpu", cpu, ("resources", "cpu")), 1, 10_000) * 1000,
        host_bytes=0
        if memory is None
        else int(_parse_gib(PlacedWord("memory", memory, ("resources", "memory"))) * GIB),
        members=1
        if nodes is None
        else amounts.parse_integer(PlacedWord("nodes", nodes, ("nodes",)), 1, 10_000),
        guesses=guesses,
        notes=tuple(f"{key} is not taken over" for key in _LEFT if key in document),
    )
    return job, _build_command(document)


def _build_command(document: Mapping[str, Any]) -> tuple[str, ...]:
    lines = [str(line) for line in read_sequence(document.get("commands"), ("commands",))]
    return ("sh", "-c", " && ".join(lines)) if lines else ("COMMAND",)


def _read_spec(given: Any) -> dict[str, Any]:
    """The long form of either form."""
    if isinstance(given, Mapping):
        return {str(key): value for key, value in given.items() if value is not None}
    found: dict[str, Any] = {}
    for token in str(given).replace(" ", "").split(":"):
        key = _classify_token(token, given)
        if key in found:
            raise ForeignValue(f"gpu: {given}: two parts are a {key}", path=_PATH)
        found[key] = token
    return found


def _classify_token(token: str, given: Any) -> str:
    if not token:
        raise ForeignValue(
            f"gpu: {given}: a part is empty", hint="write it like A100:40GB:2", path=_PATH
        )
    if token.lower() in _VENDORS:
        return "vendor"
    if token[0].isalpha():
        return "name"
    return "memory" if any(sign.isalpha() for sign in token) else "count"


def _read_ask(spec: Mapping[str, Any]) -> tuple[ContainerAsk, tuple[str, ...]]:
    unknown = set(spec) - {"vendor", "name", "memory", "count", "compute_capability"}
    if unknown:
        raise NotExpressible(
            f"gpu.{min(unknown)}: memory is asked for per card", hint="write gpu.memory", path=_PATH
        )
    count = str(spec.get("count", 1))
    many = amounts.parse_integer(PlacedWord("gpu.count", _take_lower(count), _PATH))
    wanted = _choose_models(spec)
    rule = "dstack: gpu " + ":".join(f"{key}={value}" for key, value in spec.items())
    guesses = (f"of {count} cards the smaller number",) if ".." in count else ()
    return ContainerAsk(
        many, WHOLE, select=CardFilter(models=wanted), rules=(rule,)
    ).complete(), guesses


def _choose_models(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """The models that fit everything that is said of them; none where nothing is said."""
    vendor = str(spec.get("vendor", "")).lower()
    if vendor and vendor not in _OURS:
        raise NotExpressible(
            f"gpu.vendor: {vendor}: models of it are not known here",
            hint="leave it out",
            path=_PATH,
        )
    names = spec.get("name")
    named = (
        models.list_models(
            map(str, names) if isinstance(names, (list, tuple)) else str(names).split(",")
        )
        if names
        else ()
    )
    rules = []
    for rule in (
        _match_vendor(vendor),
        _match_memory(spec.get("memory")),
        _match_capability(spec),
    ):
        if rule:
            rules.append(rule)
    if not rules:
        return named
    known: Iterable[CardModel] = CATALOGUE.values()
    if named:
        known = [CATALOGUE[name] for name in named if name in CATALOGUE]
    found = []
    for card in known:
        if all(rule(card) for rule in rules):
            found.append(card.name)
    if not found:
        told = ":".join(f"{key}={value}" for key, value in spec.items())
        raise ForeignValue(
            f"gpu {told}: no known model is like that",
            hint="name the model, e.g. gpu: H200",
            path=_PATH,
        )
    return tuple(found)


ModelRule = Callable[[CardModel], bool]


def _match_vendor(vendor: str) -> ModelRule | None:
    return (lambda card: card.vendor == vendor) if vendor else None


def _match_memory(given: Any) -> ModelRule | None:
    if given is None:
        return None
    low, _, high = (
        str(given).partition("..") if ".." in str(given) else (str(given), "", str(given))
    )
    least = _parse_gib(PlacedWord("gpu.memory", low, _PATH)) if low else 0
    most = _parse_gib(PlacedWord("gpu.memory", high, _PATH)) if high else float("inf")
    return lambda card: card.memory_mib / 1024 >= least * _SPARED and card.memory_mib / 1024 <= most


def _match_capability(spec: Mapping[str, Any]) -> ModelRule | None:
    given = spec.get("compute_capability")
    if given is None:
        return None
    found = re.fullmatch(r"([0-9]{1,2})\.([0-9])", str(given))
    if found is None:
        raise ForeignValue(f"gpu.compute_capability: {given}: write it like 8.0", path=_PATH)
    least = int(found.group(1)), int(found.group(2))
    return lambda card: card.compute_capability is not None and card.compute_capability >= least


def _take_lower(text: str) -> str:
    low, _, high = text.replace(" ", "").partition("..")
    return low or high


def _parse_gib(word: PlacedWord) -> float:
    """`24GB`, `512MB`, or so many of them."""
    found = re.fullmatch(
        r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(mb|gb|tb)?", str(word.value).strip().lower()
    )
    if found is None:
        raise ForeignValue(
            f"{word}: this is no amount of memory", hint="write it like 24GB", path=word.path
        )
    return float(found.group(1)) * _UNITS[found.group(2) or "gb"]
