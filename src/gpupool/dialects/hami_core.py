"""What HAMi and Volcano's vGPU have in common: the same core under two sets of names.

Source: Project-HAMi/HAMi pkg/device/nvidia/device.go (`GenerateResourceRequests`, `defaultExclusiveCoreIfNeeded`);
issue 737 (the default core policy limits nobody who is alone on a card).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpupool.base.errors import FactMissing, ForeignValue, NotExpressible
from gpupool.base.units import MIB, WHOLE
from gpupool.dialects import amounts
from gpupool.dialects.contract import NO_COMPUTE, Ask
from gpupool.dialects.pod import Container, Word
from gpupool.model.claim import Sharing


@dataclass(frozen=True)
class Keys:
    """The names of one system's four resources; an amount of memory below `doubtful` needs the factor to be known."""

    dialect: str
    count: str
    memory: str
    part: str
    cores: str
    doubtful: int = 0

    @property
    def own(self) -> tuple[str, str, str]:
        return self.memory, self.part, self.cores


HAMI = Keys("hami", "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores")
PRIORITY = "nvidia.com/priority"
LIMIT, SM, TASK, POLICY = (
    "CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_SM_LIMIT", "CUDA_TASK_PRIORITY", "GPU_CORE_UTILIZATION_POLICY",
)  # fmt: skip
_SHARING: Mapping[str, Sharing] = {
    "force": Sharing.FIXED,
    "default": Sharing.BURST,
    "disable": Sharing.BEST_EFFORT,
}
_URGENCY = {0: "high", 1: "low"}


def speaks(one: Container) -> bool:
    """Whether a container says something that only HAMi says."""
    return one.asks(*HAMI.own) or PRIORITY in one.resources


def limited(one: Container) -> bool:
    """Whether it sets the limits of HAMi's core itself, as one does under Docker."""
    return any(key.startswith(LIMIT) or key == SM for key in one.env)


def ask(one: Container, keys: Keys, factor: int | None, policy: str | None) -> Ask:
    """What the container asks for; a card's memory times `factor` MiB. Raises ForeignValue, FactMissing."""
    count, told = _count(one, keys)
    memory, part, rules, guesses = _memory(one, keys, factor)
    milli = _cores(one, keys)
    if milli is not None:
        rules = [*rules, f"{keys.dialect}: {one.resources[keys.cores]} % of a card's compute"]
    if milli is None and memory is None and part in (None, WHOLE):
        milli, part = WHOLE, None
        rules = [*rules, f"{keys.dialect}: all of the memory and no word of compute: the card is nobody else's"]
    elif milli is not None and memory is None and part is None and milli != WHOLE:
        part = WHOLE
        rules = [*rules, f"{keys.dialect}: no word of memory: all of it"]
    found = Ask(count, milli, memory_bytes=memory, memory_milli=None if milli == part else part)
    if milli is None:
        guesses.append(NO_COMPUTE)
    return _policy(one, replace(found, rules=(*told, *rules), guesses=tuple(guesses)), policy)


def urgent(one: Container, ask: Ask) -> Ask:
    """With what is said of precedence on the card: 0 is high, unlike elsewhere."""
    word = one.resources.get(PRIORITY) or (one.env.get(TASK) if _given(one, TASK) else None)
    if word is None:
        return ask
    rule = f"hami: {word}, beside the card's other tenants (0 is high); it is no priority in the queue"
    return replace(ask, urgency=_URGENCY[amounts.integer(word, 0, 1)], rules=(*ask.rules, rule))


def from_environment(one: Container, ask: Ask) -> Ask:
    """Limits of HAMi's core that were set by hand: taken where no resource says the same."""
    memory = next((word for key, word in one.env.items() if _is_limit(key) and _given(one, key)), None)
    if memory is not None and ask.memory_bytes is None:
        ask = replace(ask, memory_bytes=_sized(memory), memory_milli=None, rules=(*ask.rules, f"hami: {memory}"))
    if _given(one, SM) and ask.gpu_milli in (None, WHOLE):
        milli = amounts.percent(one.env[SM])
        ask = replace(ask, gpu_milli=milli, usual=Sharing.BURST, rules=(*ask.rules, f"hami: {one.env[SM]} %"))
        if ask.memory_bytes is None:
            ask = replace(ask, memory_milli=WHOLE)
    return ask


def slices(word: Word | None) -> Word | None:
    """The pod's mode where it says that its vGPUs are MIG slices, cut as they are needed."""
    return word if word is not None and amounts.text(word, "hami-core", "mig") == "mig" else None


def sliced(one: Container, found: Ask | None, mode: Word, profiles: Sequence[str] | None) -> Ask:
    """The smallest slice that holds the memory, of those that the cards can be cut into; as HAMi chooses it.

    Which slices there are depends on the card, so it has to be known. Raises FactMissing, NotExpressible.
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
    profile = min(large_enough, key=lambda name: (slice_bytes(name), name))
    rule = f"{mode}: {profile} is the smallest slice that holds {found.memory_bytes // MIB} MiB"
    guesses = tuple(guess for guess in found.guesses if guess != NO_COMPUTE)
    return Ask(found.count, profile=profile, rules=(*found.rules, rule), guesses=guesses)


def slice_bytes(profile: str) -> int:
    """Memory by a slice's name, as HAMi's own table has it: `2g.10gb` is 10240 MiB.

    >>> slice_bytes("2g.10gb") // MIB
    10240
    """
    return int(profile.partition(".")[2].removesuffix("gb")) * 1024 * MIB


def _given(one: Container, key: str) -> bool:
    return key in one.env and one.env[key].value is not None


def _is_limit(key: str) -> bool:
    return key == LIMIT or (key.startswith(f"{LIMIT}_") and key.removeprefix(f"{LIMIT}_").isdigit())


def _count(one: Container, keys: Keys) -> tuple[int, list[str]]:
    word = one.resource(keys.count)
    if word is None:
        return 1, [f"{keys.dialect}: no {keys.count}: one card"]
    many = amounts.integer(word)
    return many, [f"{keys.dialect}: {word}: {'so many different cards' if many > 1 else 'one card'}"]


def _memory(one: Container, keys: Keys, factor: int | None) -> tuple[int | None, int | None, list[str], list[str]]:
    size, part = one.resource(keys.memory), one.resource(keys.part)
    if size is not None and part is not None and one.asks(keys.memory) and one.asks(keys.part):
        raise ForeignValue(
            f"{size} and {part}: memory can be said in one way only",
            hint=f"leave out {keys.memory} or {keys.part}",
            path=part.path,
        )
    if size is not None and one.asks(keys.memory):
        return _sized_units(size, keys, factor)
    if part is not None:
        percent = amounts.percent(part, 0)
        if percent:
            return None, percent, [f"{keys.dialect}: {part} % of the card's memory, known when the card is"], []
    return None, None, [], []


def _sized_units(word: Word, keys: Keys, factor: int | None) -> tuple[int, None, list[str], list[str]]:
    size = amounts.mebibytes(word, factor or 1)
    if factor is None and size < keys.doubtful * MIB:
        raise FactMissing(
            f"{word}: {size // MIB} MiB, or with a memory factor of 10 {size // MIB * 10} MiB?",
            hint=f"say it in a file of facts: `{keys.dialect}_memory_factor: 1`",
            path=word.path,
            fact=f"{keys.dialect}_memory_factor",
        )
    rule = f"{keys.dialect}: {word} × {factor or 1} MiB = {size // MIB} MiB on each card"
    guess = [] if factor else [f"the node's memory factor is not known: 1, its default, so {size // MIB} MiB"]
    return size, None, [rule], guess


def _cores(one: Container, keys: Keys) -> int | None:
    word = one.resource(keys.cores)
    return (amounts.percent(word, 0) or None) if word is not None else None


def _policy(one: Container, ask: Ask, policy: str | None) -> Ask:
    """The core policy: the container's own word, the node's, or the default, which is a guess."""
    if ask.gpu_milli is None or (ask.gpu_milli == WHOLE and not _given(one, POLICY)):
        return ask
    if _given(one, POLICY):
        said = _SHARING[amounts.text(one.env[POLICY], *_SHARING)]
        return replace(ask, sharing=said, rules=(*ask.rules, f"hami: {one.env[POLICY]}"))
    if policy is not None:
        return replace(ask, usual=_SHARING[policy], rules=(*ask.rules, f"hami: core policy {policy} of the node"))
    guess = "the node's core policy is not known: `default`, which limits nobody who is alone on a card, so burst"
    return replace(ask, usual=Sharing.BURST, guesses=(*ask.guesses, guess))


def _sized(word: Word) -> int:
    """`4g`, `512m`, bytes: HAMi's suffixes are binary."""
    written = amounts.text(word).lower()
    factor = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}.get(written[-1:], 1)
    digits = written[:-1] if factor > 1 else written
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise ForeignValue(f"{word}: this is no amount of memory", hint="write it like 4g", path=word.path)
    return amounts.size(Word(word.key, str(int(digits) * factor), word.path))
