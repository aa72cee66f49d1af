"""Reads the resources that HAMi and Volcano's vGPU share: one core under two sets of names.

Source: Project-HAMi/HAMi pkg/device/nvidia/device.go (`GenerateResourceRequests`,
`defaultExclusiveCoreIfNeeded`); issue 737 (the default core policy sets no limit for a
container that is alone on its card).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpupool.base.errors import FactMissing, ForeignValue, NotExpressible
from gpupool.base.units import MIB, WHOLE
from gpupool.dialects import amounts
from gpupool.dialects.contract import NO_COMPUTE, ContainerAsk
from gpupool.dialects.pod import PlacedWord, PodContainer
from gpupool.model.claim import SharingKind


@dataclass(frozen=True)
class ResourceKeys:
    """The names of one system's four resources; an amount of memory below `doubtful` needs the
    factor to be known."""

    dialect: str
    count: str
    memory: str
    part: str
    cores: str
    doubtful: int = 0

    @property
    def amount_keys(self) -> tuple[str, str, str]:
        return self.memory, self.part, self.cores


HAMI = ResourceKeys(
    "hami",
    "nvidia.com/gpu",
    "nvidia.com/gpumem",
    "nvidia.com/gpumem-percentage",
    "nvidia.com/gpucores",
)
#: 0 is high and 1 low; elsewhere a larger number is the higher priority.
PRIORITY = "nvidia.com/priority"
#: Variables that HAMi's core library reads in the container; under plain Docker users set them.
LIMIT = "CUDA_DEVICE_MEMORY_LIMIT"
SM = "CUDA_DEVICE_SM_LIMIT"
TASK = "CUDA_TASK_PRIORITY"
POLICY = "GPU_CORE_UTILIZATION_POLICY"
#: `default` limits only a container that has neighbours on the card (HAMi issue 737): so burst.
_SHARING: Mapping[str, SharingKind] = {
    "force": SharingKind.FIXED,
    "default": SharingKind.BURST,
    "disable": SharingKind.BEST_EFFORT,
}
_URGENCY = {0: "high", 1: "low"}


def has_hami_words(one: PodContainer) -> bool:
    """Whether a container says something that only HAMi says."""
    return one.asks_for(*HAMI.amount_keys) or PRIORITY in one.resources


def has_own_limits(one: PodContainer) -> bool:
    """Whether it sets the limits of HAMi's core itself, as one does under Docker."""
    return any(key.startswith(LIMIT) or key == SM for key in one.env)


def read_ask(
    one: PodContainer, keys: ResourceKeys, factor: int | None, policy: str | None
) -> ContainerAsk:
    """What the container asks for; a card's memory times `factor` MiB. Raises ForeignValue,
    FactMissing."""
    count, told = _read_count(one, keys)
    memory, part, rules, guesses = _read_memory(one, keys, factor)
    milli = _read_cores(one, keys)
    if milli is not None:
        rules = [*rules, f"{keys.dialect}: {one.resources[keys.cores]} % of a card's compute"]
    # HAMi's `defaultExclusiveCoreIfNeeded`: all of the memory without a word of compute is the
    # card.
    if milli is None and memory is None and part in (None, WHOLE):
        milli = WHOLE
        part = None
        rules = [
            *rules,
            f"{keys.dialect}: all of the memory and no word of compute: the card is nobody else's",
        ]
    elif milli is not None and memory is None and part is None and milli != WHOLE:
        part = WHOLE
        rules = [*rules, f"{keys.dialect}: no word of memory: all of it"]
    found = ContainerAsk(
        count, milli, memory_bytes=memory, memory_milli=None if milli == part else part
    )
    if milli is None:
        guesses.append(NO_COMPUTE)
    return _apply_policy(one, replace(found, rules=(*told, *rules), guesses=tuple(guesses)), policy)


def add_urgency(one: PodContainer, ask: ContainerAsk) -> ContainerAsk:
    """With what is said of precedence on the card: 0 is high, unlike elsewhere."""
    word = one.resources.get(PRIORITY) or (one.env.get(TASK) if _is_set(one, TASK) else None)
    if word is None:
        return ask
    rule = (
        f"hami: {word}, beside the card's other tenants (0 is high); it is no priority in the queue"
    )
    return replace(
        ask, urgency=_URGENCY[amounts.parse_integer(word, 0, 1)], rules=(*ask.rules, rule)
    )


def from_environment(one: PodContainer, ask: ContainerAsk) -> ContainerAsk:
    """Limits of HAMi's core that were set by hand: taken where no resource says the same."""
    memory = next(
        (word for key, word in one.env.items() if _is_limit(key) and _is_set(one, key)), None
    )
    if memory is not None and ask.memory_bytes is None:
        ask = replace(
            ask,
            memory_bytes=_parse_limit(memory),
            memory_milli=None,
            rules=(*ask.rules, f"hami: {memory}"),
        )
    if _is_set(one, SM) and ask.gpu_milli in (None, WHOLE):
        milli = amounts.parse_percent(one.env[SM])
        ask = replace(
            ask,
            gpu_milli=milli,
            usual=SharingKind.BURST,
            rules=(*ask.rules, f"hami: {one.env[SM]} %"),
        )
        if ask.memory_bytes is None:
            ask = replace(ask, memory_milli=WHOLE)
    return ask


def find_mig_mode(word: PlacedWord | None) -> PlacedWord | None:
    """The pod's mode where it says that its vGPUs are MIG slices, cut as they are needed."""
    return (
        word if word is not None and amounts.read_text(word, "hami-core", "mig") == "mig" else None
    )


def choose_slice(
    one: PodContainer, found: ContainerAsk | None, mode: PlacedWord, profiles: Sequence[str] | None
) -> ContainerAsk:
    """The smallest slice that holds the memory, of those that the cards can be cut into; as HAMi
    chooses it.

    Which slices there are depends on the card, so it has to be known. Raises FactMissing,
    NotExpressible.
    """
    if found is None or found.gpu_milli is not None or found.memory_bytes is None:
        raise NotExpressible(
            f"{mode}: container {one.name} chooses its slice by something else than an amount of memory",
            hint="name it: gpupool.dev/profile: 1g.10gb, or leave the mode out for a fenced share",
            path=mode.path,
        )
    if profiles is None:
        raise FactMissing(
            f"{mode}: which slice is to be cut is not said",
            hint="name it: gpupool.dev/profile: 1g.10gb, or list the cards' slices in a file of facts: "
            "`hami_mig_profiles: [1g.5gb, 2g.10gb]`, or leave the mode out for a fenced share",
            path=mode.path,
            fact="hami_mig_profiles",
        )
    large_enough = [name for name in profiles if slice_bytes(name) >= found.memory_bytes]
    if not large_enough:
        raise NotExpressible(
            f"{mode}: no slice of {', '.join(profiles)} holds {found.memory_bytes // MIB} MiB",
            hint="ask for less memory, or for a whole card: leave the mode and the memory out",
            path=mode.path,
        )
    # By name among slices of one size: the choice must not depend on the order in the file of
    # facts.
    profile = min(large_enough, key=lambda name: (slice_bytes(name), name))
    rule = f"{mode}: {profile} is the smallest slice that holds {found.memory_bytes // MIB} MiB"
    guesses = tuple(guess for guess in found.guesses if guess != NO_COMPUTE)
    return ContainerAsk(found.count, profile=profile, rules=(*found.rules, rule), guesses=guesses)


def slice_bytes(profile: str) -> int:
    """Memory by a slice's name, as HAMi's own table has it: `2g.10gb` is 10240 MiB.

    >>> slice_bytes("2g.10gb") // MIB
    10240
    """
    return int(profile.partition(".")[2].removesuffix("gb")) * 1024 * MIB


def _is_set(one: PodContainer, key: str) -> bool:
    return key in one.env and one.env[key].value is not None


def _is_limit(key: str) -> bool:
    return key == LIMIT or (key.startswith(f"{LIMIT}_") and key.removeprefix(f"{LIMIT}_").isdigit())


def _read_count(one: PodContainer, keys: ResourceKeys) -> tuple[int, list[str]]:
    word = one.find_resource(keys.count)
    if word is None:
        return 1, [f"{keys.dialect}: no {keys.count}: one card"]
    many = amounts.parse_integer(word)
    return many, [
        f"{keys.dialect}: {word}: {'so many different cards' if many > 1 else 'one card'}"
    ]


def _read_memory(
    one: PodContainer, keys: ResourceKeys, factor: int | None
) -> tuple[int | None, int | None, list[str], list[str]]:
    size = one.find_resource(keys.memory)
    part = one.find_resource(keys.part)
    if (
        size is not None
        and part is not None
        and one.asks_for(keys.memory)
        and one.asks_for(keys.part)
    ):
        raise ForeignValue(
            f"{size} and {part}: memory can be said in one way only",
            hint=f"leave out {keys.memory} or {keys.part}",
            path=part.path,
        )
    if size is not None and one.asks_for(keys.memory):
        return _convert_units(size, keys, factor)
    if part is not None:
        percent = amounts.parse_percent(part, 0)
        if percent:
            return (
                None,
                percent,
                [f"{keys.dialect}: {part} % of the card's memory, known when the card is"],
                [],
            )
    return None, None, [], []


def _convert_units(
    word: PlacedWord, keys: ResourceKeys, factor: int | None
) -> tuple[int, None, list[str], list[str]]:
    size = amounts.parse_mebibytes(word, factor or 1)
    # Volcano counts in units of its factor, 1 or 10 in the field: from 64 to 999 both readings give
    # a plausible share, and the wrong one is wrong ten times over (HAMi issue 2187).
    if factor is None and size < keys.doubtful * MIB:
        raise FactMissing(
            f"{word}: {size // MIB} MiB, or with a memory factor of 10 {size // MIB * 10} MiB?",
            hint=f"say it in a file of facts: `{keys.dialect}_memory_factor: 1`",
            path=word.path,
            fact=f"{keys.dialect}_memory_factor",
        )
    rule = f"{keys.dialect}: {word} × {factor or 1} MiB = {size // MIB} MiB on each card"
    guess = (
        []
        if factor
        else [f"the node's memory factor is not known: 1, its default, so {size // MIB} MiB"]
    )
    return size, None, [rule], guess


def _read_cores(one: PodContainer, keys: ResourceKeys) -> int | None:
    word = one.find_resource(keys.cores)
    return (amounts.parse_percent(word, 0) or None) if word is not None else None


def _apply_policy(one: PodContainer, ask: ContainerAsk, policy: str | None) -> ContainerAsk:
    """The core policy: the container's own word, the node's, or the default, which is a guess."""
    if ask.gpu_milli is None or (ask.gpu_milli == WHOLE and not _is_set(one, POLICY)):
        return ask
    if _is_set(one, POLICY):
        said = _SHARING[amounts.read_text(one.env[POLICY], *_SHARING)]
        return replace(ask, sharing=said, rules=(*ask.rules, f"hami: {one.env[POLICY]}"))
    if policy is not None:
        return replace(
            ask,
            usual=_SHARING[policy],
            rules=(*ask.rules, f"hami: core policy {policy} of the node"),
        )
    guess = "the node's core policy is not known: `default`, which limits nobody who is alone on a card, so burst"
    return replace(ask, usual=SharingKind.BURST, guesses=(*ask.guesses, guess))


def _parse_limit(word: PlacedWord) -> int:
    """`4g`, `512m`, bytes: HAMi's suffixes are binary."""
    written = amounts.read_text(word).lower()
    factor = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}.get(written[-1:], 1)
    # Without a suffix it is bytes.
    digits = written[:-1] if factor > 1 else written
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise ForeignValue(
            f"{word}: this is no amount of memory", hint="write it like 4g", path=word.path
        )
    return amounts.parse_size(PlacedWord(word.key, str(int(digits) * factor), word.path))
