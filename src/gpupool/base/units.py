"""Parses and formats quantities: the only place where text meets numbers.

Inside gpupool memory is bytes, compute is milli-devices (1/1000 of one card), time is nanoseconds
or whole seconds, all integers. Memory is granted in whole MiB, rounded up.

`gpupool run` imports this module before every job, so `re`, `decimal` and `datetime` are imported
where an unusual text needs them.
"""

from __future__ import annotations

from gpupool.base.errors import BadBandwidth, BadDuration, BadFraction, BadQuantity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from decimal import Decimal

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
TIB = 1 << 40
#: Milli-devices of one whole card.
WHOLE = 1000
#: Instants and durations are integers of nanoseconds, as `time.time_ns` counts them.
NANOS_PER_SECOND = 10**9
NANOS_PER_MILLISECOND = 10**6

#: In lower case; `Gi` is Kubernetes' way to write GiB.
_FACTORS = {
    "b": 1,
    "kib": KIB, "mib": MIB, "gib": GIB, "tib": TIB,
    "ki": KIB, "mi": MIB, "gi": GIB, "ti": TIB,
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
}  # fmt: skip
#: Letters that mean two units: `8G` is 8 GiB to some and 8 GB to others, 7 % less.
_BARE = {"k": "K", "m": "M", "g": "G", "t": "T"}
_QUANTITY = r"\s*([+-]?[0-9.,eE]+)\s*([A-Za-z]*)\s*"
#: Seconds of the letters of a duration.
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
#: 1 EiB: no card has as much, so a larger number is a mistake.
_MAX_BYTES = 1 << 60


def parse_memory(text: str) -> int:
    """Parse bytes like `8GiB`, `8Gi`, `8192MiB` or `16GB`, rounded up to whole MiB.

    Raises:
        BadQuantity: The text is no size, is ambiguous (`8G`), not positive or far too large.

    >>> parse_memory("8GiB") == 8 * GIB, parse_memory("16GB") == parse_memory("15259MiB")
    (True, True)
    """
    plain = _plain_memory(text)
    if plain:
        return plain
    import re

    found = re.fullmatch(_QUANTITY, text)
    number = _decimal(found.group(1)) if found else None
    if found is None or number is None:
        raise BadQuantity(
            f"{text!r} is not an amount of memory", hint="write it like 8GiB or 8192MiB"
        )
    unit = found.group(2).lower()
    if not unit:
        raise BadQuantity(
            f"{text} bytes? did you mean {text.strip()}GiB?", hint=f"write {text.strip()}GiB"
        )
    if unit in _BARE:
        letter = _BARE[unit]
        amount = found.group(1)
        raise BadQuantity(
            f"{text!r} can mean {amount}{letter}iB or {amount}{letter}B, which differ",
            hint=f"write {amount}{letter}iB",
        )
    if unit not in _FACTORS:
        raise BadQuantity(
            f"unknown unit {found.group(2)!r} in {text!r}",
            hint="units: KiB MiB GiB TiB KB MB GB TB",
        )
    # A number of a million digits overflows when it is multiplied.
    exact = number if number > _MAX_BYTES else number * _FACTORS[unit]
    if exact <= 0:
        raise BadQuantity(f"{text} of memory is nothing", hint="ask for at least 1MiB")
    if exact > _MAX_BYTES:
        raise BadQuantity(
            f"{text} is more memory than any card will have", hint="write it like 8GiB"
        )
    return -(-int(exact.to_integral_value(rounding="ROUND_CEILING")) // MIB) * MIB


def _plain_memory(text: str) -> int | None:
    """Parse a whole number with a unit, as most texts are; None for any other text."""
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    factor = _FACTORS.get(text[len(digits) :].lower())
    if factor is None or not digits.isascii() or not digits.isdigit() or len(digits) > 18:
        return None
    size = int(digits) * factor
    return -(-size // MIB) * MIB if 0 < size <= _MAX_BYTES else None


def _plain_milli(text: str) -> int | None:
    """Parse thousandths of `0.3`, `1` or `.25`; None for any other text."""
    whole, _, part = text.partition(".")
    if not (whole + part).isdigit() or not text.isascii() or len(whole) > 1 or len(part) > 3:
        return None
    milli = int(whole or "0") * WHOLE + int(part.ljust(3, "0"))
    return milli if 0 < milli <= WHOLE else None


def _decimal(text: str) -> Decimal | None:
    from decimal import Decimal, InvalidOperation

    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    return value if value.is_finite() else None


def parse_bandwidth(text: str) -> int:
    """Parse bits per second like `20M`, `1.5G` or `300Mbit`, in kbit/s.

    Raises:
        BadBandwidth: The text is no bandwidth, or below 1M or above 100G.

    >>> parse_bandwidth("20M"), parse_bandwidth("1.5G"), parse_bandwidth("300Mbit")
    (20000, 1500000, 300000)
    """
    import re

    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([MG])(?:bit(?:/s)?)?", text.strip())
    if found is None:
        raise BadBandwidth(
            f"{text[:40]!r} is no bandwidth", hint="write bits per second like 20M or 1.5G"
        )
    number = _decimal(found[1])
    assert number is not None
    kbit = int(number * (1000 if found[2] == "M" else 1_000_000))
    if not 1000 <= kbit <= 100_000_000:
        raise BadBandwidth(f"{text[:40]} is not from 1M to 100G", hint="write it like 20M or 1.5G")
    return kbit


def format_bandwidth(kbit: int) -> str:
    """Format kbit/s as Mbit/s: `20 Mbit/s`, `1.5 Mbit/s`."""
    return f"{kbit / 1000:.10g} Mbit/s"


def parse_gpu(text: str) -> tuple[int, int | None]:
    """Parse the option `--gpu`: `0.3`, `1` or `4`. Raises BadFraction.

    Up to one card the number is a share of one card; above it only whole cards are possible.

    Returns:
        Milli-devices per card, and the number of cards if the text has more than one card.

    >>> parse_gpu("0.3"), parse_gpu("1"), parse_gpu("4")
    ((300, None), (1000, None), (1000, 4))
    """
    plain = _plain_milli(text)
    if plain:
        return plain, None
    value = _decimal(text.strip())
    if value is None:
        raise BadFraction(
            f"{text!r} is not a share of a card", hint="write it like --gpu 0.3 or --gpu 1"
        )
    if value <= 0:
        raise BadFraction(
            f"--gpu {text} asks for nothing", hint="ask for 0.001 to 1 of a card, or whole cards"
        )
    if value > 1 and value != value.to_integral_value():
        raise BadFraction(
            f"--gpu {text}: above one card only whole cards can be given",
            hint=f"write --gpu {int(value) + 1}, or a share with --count, e.g. --gpu 0.5 --count 3",
        )
    if value > 100_000:
        raise BadFraction(
            f"--gpu {text}: no pool has that many cards", hint="write it like --gpu 0.3"
        )
    if value > 1:
        return WHOLE, int(value)
    milli = value * WHOLE
    if milli != milli.to_integral_value():
        raise BadFraction(
            f"--gpu {text}: shares go in steps of 0.001", hint=f"write --gpu {round(value, 3)}"
        )
    return int(milli), None


def parse_duration(text: str) -> int:
    """Parse whole seconds like `90s`, `30m`, `1h30m` or `2d`. Raises BadDuration.

    >>> parse_duration("1h30m"), parse_duration("2d")
    (5400, 172800)
    """
    import re

    parts = re.findall(r"([0-9]+)\s*([smhdw])", text.strip().lower())
    if not parts or "".join(n + u for n, u in parts) != re.sub(r"\s", "", text.lower()):
        hint = (
            f"write {text}s, {text}m or {text}h"
            if text.strip().strip("0").isdigit()
            else "write it like 90s, 30m, 2h, 1h30m"
        )
        raise BadDuration(f"{text!r} is not a duration", hint=hint)
    seconds = sum(int(n) * _SECONDS[u] for n, u in parts)
    if not 0 < seconds <= 10 * 366 * 86400:
        raise BadDuration(
            f"{text!r}: a duration is between 1s and ten years", hint="write it like 2h"
        )
    return seconds


def parse_since(text: str, now: datetime) -> datetime:
    """Parse an instant in the past: `2h` (ago), `2026-11`, `2026-11-20` or an ISO time.

    An ISO time without a zone is UTC. Raises BadDuration.
    """
    return _parse_instant(text.strip(), now, -1)


def parse_when(text: str, now: datetime) -> datetime:
    """Parse an instant to come: an ISO time, or `2h` from now.

    An ISO time without a zone is UTC. Raises BadDuration.
    """
    return _parse_instant(text.strip(), now, 1)


def _parse_instant(text: str, now: datetime, direction: int) -> datetime:
    import re
    from datetime import UTC, datetime, timedelta

    is_month = direction < 0 and re.fullmatch(r"\d{4}-\d{2}", text)
    try:
        instant = datetime.fromisoformat(f"{text}-01" if is_month else text)
        return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)
    except ValueError:
        try:
            return now + direction * timedelta(seconds=parse_duration(text))
        except BadDuration as error:
            if text.rstrip("smhdw").isdigit():  # the error says which unit it lacks
                raise
            is_time = text[:1].isdigit() and any(sign in text for sign in "-:T")
            raise BadDuration(
                f"{text!r} is no time" if is_time else f"{text!r} is neither a time nor a duration",
                hint="write it like 2026-12-01T08:00, or 2h for two hours from now"
                if direction > 0
                else "write it like 2026-11-20, 2026-11-20T08:00 or 2026-11, or 2h for two hours ago",
            ) from error


def format_gpu(milli: int) -> str:
    """Format milli-devices like `0.30`, `0.333` or `2.00`."""
    return f"{milli / WHOLE:.2f}" if milli % 10 == 0 else f"{milli / WHOLE:.3f}"


def format_percent(milli: int) -> str:
    """Format milli-devices as percent of one card, like `30` or `33.3`."""
    return str(milli // 10) if milli % 10 == 0 else f"{milli / 10:.1f}"


def format_mib(size: int) -> str:
    """Format bytes as whole MiB, rounded down, like `8192 MiB`."""
    return f"{size // MIB} MiB"


def format_share(
    gpu_milli: int,
    memory_bytes: int | None,
    count: int = 1,
    *,
    unpromised: str = "",
    profile: str | None = None,
) -> str:
    """Format the two numbers of a share; the name of a partition comes before them.

    A `count` of 0 is a claim without a card. `unpromised` names a kind of sharing that promises no
    compute: it replaces the percentage.

    >>> format_share(300, 8 * GIB)
    '0.30 GPU (30 % compute) + 8192 MiB'
    >>> format_share(142, 16 * GIB, profile="1g.18gb")
    '1g.18gb: 0.142 GPU (14.2 % compute) + 16384 MiB'
    >>> format_share(0, None, 0)
    'no GPU'
    """
    if count == 0:
        return "no GPU"
    compute = unpromised or f"{format_percent(gpu_milli)} % compute"
    default = "its own memory" if profile else "its part of the memory"
    memory = format_mib(memory_bytes) if memory_bytes is not None else default
    one = f"{format_gpu(gpu_milli)} GPU ({compute}) + {memory}"
    one = f"{profile}: {one}" if profile else one
    return one if count == 1 else f"{count} × [{one}]"


def format_duration(seconds: float) -> str:
    """Format seconds as a clock does: `0:04`, `12:31`, `3:05:00`, `2d 3:05:00`."""
    whole = max(0, int(seconds))
    days, rest = divmod(whole, 86400)
    hours, minutes = divmod(rest // 60, 60)
    clock = (
        f"{hours}:{minutes:02d}:{rest % 60:02d}" if hours or days else f"{minutes}:{rest % 60:02d}"
    )
    return f"{days}d {clock}" if days else clock


def format_span(seconds: int) -> str:
    """Format whole seconds as `parse_duration` reads them, like `90s`, `50m`, `1h30m`.

    >>> format_span(3000), format_span(5400), format_span(61), format_span(0)
    ('50m', '1h30m', '1m1s', '0s')
    """
    parts = list[str]()
    rest = seconds
    for letter, length in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, length)
        if count:
            parts.append(f"{count}{letter}")
    return "".join(parts) or "0s"


def format_instant(instant_ns: int) -> str:
    """Format nanoseconds since 1970 as UTC to the second, like `2026-11-20T08:00:00Z`."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(instant_ns // NANOS_PER_SECOND, UTC).strftime(
        "%Y-%m-%dT%H:%M:%SZ"
    )


def format_chance(percent: int) -> str:
    """Format a chance in tenths; no chance is shown as certain.

    >>> [format_chance(percent) for percent in (3, 40, 66, 95, 100)]
    ['fewer than 1 of 10', '4 of 10', '7 of 10', 'more than 9 of 10', 'more than 9 of 10']
    """
    tenths = (percent + 5) // 10
    if tenths < 1:
        return "fewer than 1 of 10"
    return "more than 9 of 10" if tenths > 9 else f"{tenths} of 10"
