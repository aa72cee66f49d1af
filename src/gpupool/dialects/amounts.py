"""Values of foreign words as numbers of ours, or a refusal that says which number was meant. For
dialects alone."""

from __future__ import annotations

from fractions import Fraction

from gpupool.base.errors import BadQuantity, ForeignValue
from gpupool.base.quantities import parse_quantity
from gpupool.base.units import GIB, MIB, WHOLE
from gpupool.dialects.pod import PlacedWord

#: Far above any cluster: a larger number is a mistake, and would overflow counts further on.
MOST_CARDS = 100_000
#: Less than that holds no CUDA context on any card: the number was meant in another unit.
LEAST_MIB = 64
#: No card has so much memory: a larger number was meant in another unit.
MOST_BYTES = 4096 * GIB


def parse_number(word: PlacedWord) -> Fraction:
    """Exactly what is written. Raises ForeignValue."""
    try:
        return parse_quantity(word.value)
    except BadQuantity as error:
        raise ForeignValue(
            f"{word.key}: {error.message}", hint=error.hint, path=word.path
        ) from None


def parse_integer(
    word: PlacedWord, low: int = 1, high: int = MOST_CARDS, *, what: str = "a whole number"
) -> int:
    """A whole number between bounds. Raises ForeignValue."""
    value = parse_number(word)
    if value.denominator != 1 or not low <= value <= high:
        raise ForeignValue(f"{word}: this is {what} from {low} to {high}", path=word.path)
    return int(value)


def parse_percent(word: PlacedWord, low: int = 1, high: int = 100, step: int = 1) -> int:
    """Thousandths of a percentage. Raises ForeignValue."""
    value = parse_integer(word, low, high, what="a percentage")
    if value % step:
        near = max(step, value // step * step)
        raise ForeignValue(
            f"{word}: goes in steps of {step}",
            hint=f"write {near} or {near + step}",
            path=word.path,
        )
    return value * 10


def parse_fraction(word: PlacedWord) -> int:
    """Thousandths of a number above 0 and at most 1. Raises ForeignValue."""
    value = parse_number(word)
    if not 0 < value <= 1:
        raise ForeignValue(
            f"{word}: a part of one card is above 0 and at most 1",
            hint="above one card ask for whole cards, or for several with a part of each",
            path=word.path,
        )
    if (value * WHOLE).denominator != 1:
        raise ForeignValue(
            f"{word}: parts go in steps of 0.001",
            hint=f"write {round(float(value), 3)}",
            path=word.path,
        )
    return int(value * WHOLE)


def parse_hundreds(word: PlacedWord, step: int = 1) -> tuple[int, int]:
    """(cards, thousandths of each): up to 100 a part of one card, above it N×100 whole cards.
    Raises ForeignValue."""
    value = parse_integer(word, 1, 100 * MOST_CARDS, what="a percentage of one card, or N×100")
    if value > 100 and value % 100:
        raise ForeignValue(
            f"{word}: above 100 only whole cards can be had",
            hint=f"write {value // 100 * 100} or {value // 100 * 100 + 100}",
            path=word.path,
        )
    if value < 100 and value % step:
        raise ForeignValue(
            f"{word}: goes in steps of {step}",
            hint=f"write {-(-value // step) * step}",
            path=word.path,
        )
    return (value // 100, WHOLE) if value >= 100 else (1, value * 10)


def parse_mebibytes(word: PlacedWord, unit_mib: int = 1) -> int:
    """Bytes of so many units of MiB. Raises ForeignValue where only another unit makes sense."""
    value = parse_integer(word, 1, 1 << 60, what="an amount of memory")
    size = value * unit_mib * MIB
    # Users who think in GiB write 8 where MiB are counted.
    if size < LEAST_MIB * MIB:
        raise ForeignValue(
            f"{word} is {value * unit_mib} MiB, which holds no CUDA context; did you mean {value * 1024}?",
            hint=f"write {value * 1024 // unit_mib} for {value} GiB",
            path=word.path,
        )
    if size > MOST_BYTES:
        meant = max(1, value // (unit_mib * MIB))
        raise ForeignValue(
            f"{word} is {size // GIB} GiB, more than any card has; did you mean bytes?",
            hint=f"write {meant} for so many bytes",
            path=word.path,
        )
    return size


def parse_gibibytes(word: PlacedWord) -> int:
    """Bytes of so many GiB. Raises ForeignValue where only another unit makes sense."""
    value = parse_integer(word, 1, 1 << 60, what="an amount of memory in GiB")
    # Users who think in MiB write 8192 where GiB are counted.
    if value * GIB > MOST_BYTES:
        raise ForeignValue(
            f"{word} is {value} GiB, more than any card has; did you mean MiB?",
            hint=f"write {max(1, value // 1024)} for {value} MiB",
            path=word.path,
        )
    return value * GIB


def parse_size(word: PlacedWord) -> int:
    """Bytes of a quantity (`8Gi`), rounded up to whole MiB. Raises ForeignValue."""
    value = parse_number(word)
    # Rounded up: a share that is smaller than what was asked for could end the program.
    rounded = -(-value // MIB) * MIB
    if not LEAST_MIB * MIB <= rounded <= MOST_BYTES:
        raise ForeignValue(
            f"{word} is {rounded // MIB} MiB: a share has from {LEAST_MIB} MiB to {MOST_BYTES // GIB} GiB",
            hint="write it with its unit, like 8Gi",
            path=word.path,
        )
    return int(rounded)


def split_evenly(total: int, cards: int, word: PlacedWord, step: int = 1) -> int:
    """What each of the cards gets of a total. Raises ForeignValue where it does not come out
    even."""
    if total % (cards * step):
        raise ForeignValue(
            f"{word} does not divide evenly over {cards} cards",
            hint=f"write a multiple of {cards}",
            path=word.path,
        )
    return total // cards


def read_text(word: PlacedWord, *choices: str) -> str:
    """What is written, one of the choices if there are any. Raises ForeignValue."""
    value = "" if word.value is None else str(word.value).strip()
    if not value or (choices and value not in choices):
        known = f"one of: {', '.join(choices)}" if choices else ""
        raise ForeignValue(
            f"{word}: this is not known" if value else f"{word.key} is empty",
            hint=known,
            path=word.path,
        )
    return value


def read_name(word: PlacedWord) -> str:
    """A name that can stand in a list: no comma, no blank around it. Raises ForeignValue."""
    value = read_text(word)
    # Names are written into comma lists, where a comma would make two of one.
    if "," in value or not value.isprintable():
        raise ForeignValue(f"{word}: this is no name", path=word.path)
    return value


def read_truth(word: PlacedWord) -> bool:
    """`true` or `false`, 1 or 0. Raises ForeignValue."""
    return read_text(
        PlacedWord(word.key, str(word.value).lower(), word.path), "true", "false", "1", "0"
    ) in (
        "true",
        "1",
    )


def read_list(word: PlacedWord) -> tuple[str, ...]:
    """The parts of a comma list. Raises ForeignValue when there is none."""
    parts = tuple(
        dict.fromkeys(part.strip() for part in read_text(word).split(",") if part.strip())
    )
    if not parts:
        raise ForeignValue(f"{word}: an empty list", path=word.path)
    return parts
