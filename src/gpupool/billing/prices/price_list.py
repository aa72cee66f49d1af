"""A price list: its rates, and which of them prices a share in an hour. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from zoneinfo import ZoneInfo

from gpupool.base.errors import BadOption
from gpupool.metering.books import MICRO, WHOLE_MILLI, UsageAmount

#: The model of a rate that prices every model without a rate of its own.
ANY_MODEL = "*"
HOURS_OF_DAY = 24
RULES = ("max", "compute-only", "memory-only")


@dataclass(frozen=True)
class Rate:
    """What one card costs an hour, where the conditions hold; None is any."""

    model: str
    price_micro: int
    mechanism: str | None = None
    sharing: str | None = None
    #: First hour of the day and the one after the last, in the list's time zone: 22, 8 is the night.
    hours: tuple[int, int] | None = None

    @property
    def conditions(self) -> tuple[str, str | None, str | None]:
        return self.model, self.mechanism, self.sharing

    @property
    def day_hours(self) -> frozenset[int]:
        """The hours of the day in which it holds."""
        if self.hours is None:
            return frozenset(range(HOURS_OF_DAY))
        first, after = self.hours
        count = (after - first) % HOURS_OF_DAY
        return frozenset((first + n) % HOURS_OF_DAY for n in range(count))

    @property
    def is_base(self) -> bool:
        """Whether it prices a card as such: capacity is priced by it."""
        return self.mechanism is None and self.sharing is None

    def describe(self) -> str:
        """Describe the conditions as the command line writes them."""
        parts = [self.model]
        if self.mechanism is not None:
            parts.append(f"mechanism={self.mechanism}")
        if self.sharing is not None:
            parts.append(f"sharing={self.sharing}")
        if self.hours is not None:
            parts.append(f"hours={self.hours[0]:02}-{self.hours[1]:02}")
        return ",".join(parts)


@dataclass(frozen=True)
class ShareFacts:
    """What a price may depend on, of one share."""

    model: str
    mechanism: str
    sharing: str
    preemptible: bool


@dataclass(frozen=True)
class DatedPriceList:
    """Rates from an instant on, until the next list."""

    name: str
    from_s: int
    currency: str
    timezone: str
    rates: tuple[Rate, ...]
    rule: str = "max"
    #: Thousandths of the price that a preemptible job is let off.
    preemptible_discount_milli: int = 0
    #: Hundredths of a percent, on documents.
    tax_basis_points: int = 0
    #: Thousandths of the price of the card that reserved, unused cards cost; 0: they are idle.
    reserved_milli: int = 0

    @cached_property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)

    def get_local_hour(self, hour_s: int) -> int:
        """Return the hour of the day of an hour of the books, in the list's zone."""
        return datetime.fromtimestamp(hour_s, self.zone).hour

    def find_price(self, facts: ShareFacts, local_hour: int) -> int | None:
        """Find the micro-units per card and hour of a share; None: it has no price.

        The rate that names most of model, mechanism, sharing and hours holds, in this order.
        """
        best: Rate | None = None
        for rate in self.rates:
            if (
                rate.model in (facts.model, ANY_MODEL)
                and rate.mechanism in (None, facts.mechanism)
                and rate.sharing in (None, facts.sharing)
                and local_hour in rate.day_hours
                and (best is None or _rank(rate) > _rank(best))
            ):
                best = rate
        return None if best is None else best.price_micro

    def find_base_price(self, model: str, local_hour: int) -> int | None:
        """Find the price of the card itself, by which capacity and idle time are priced."""
        return self.find_price(ShareFacts(model, "", "", False), local_hour)

    def get_factor_milli(self, facts: ShareFacts) -> int:
        """Return how many thousandths of the price are charged."""
        discount = self.preemptible_discount_milli if facts.preemptible else 0
        return WHOLE_MILLI - discount

    def count_charged(self, amount: UsageAmount, card_memory_mib: int) -> int:
        """Count the millionths of a card times seconds that a share is charged for."""
        if self.rule == "compute-only":
            return amount.card_milliseconds * (MICRO // WHOLE_MILLI)
        if self.rule == "memory-only":
            return amount.memory_mib_seconds * MICRO // card_memory_mib if card_memory_mib else 0
        return amount.dominant_micro_seconds


def _rank(rate: Rate) -> tuple[bool, bool, bool, bool]:
    named = (rate.model != ANY_MODEL, rate.mechanism is not None, rate.sharing is not None)
    return *named, rate.hours is not None


def check_rates(rates: Sequence[Rate]) -> None:
    """Check that of two rates it is always clear which one holds.

    Raises:
        BadOption: two rates hold for the same share in the same hour, or a model has a special
            rate and none of its own.
    """
    hours_of: dict[tuple[object, ...], set[int]] = {}
    for rate in rates:
        key = (*rate.conditions, rate.hours is None)
        taken = hours_of.setdefault(key, set())
        twice = sorted(taken & rate.day_hours)
        if twice:
            raise BadOption(
                f"two prices for {rate.describe()} at {twice[0]:02}:00",
                hint="give one price for each hour of the day",
                fields=[{"field": "rates", "problem": f"two prices for {rate.describe()}"}],
            )
        taken.update(rate.day_hours)
    for model in dict.fromkeys(rate.model for rate in rates):
        if not _covers_day(rates, model):
            raise BadOption(
                f"{model} has no price of the card itself for every hour of the day",
                hint=f"add --price {model}:PRICE, or --price '*:PRICE' for every model",
                fields=[{"field": "rates", "problem": f"{model} lacks a price of some hour"}],
            )


def _covers_day(rates: Iterable[Rate], model: str) -> bool:
    covered: set[int] = set()
    for rate in rates:
        if rate.is_base and rate.model in (model, ANY_MODEL):
            covered |= rate.day_hours
    return len(covered) == HOURS_OF_DAY


def find_list(lists: Sequence[DatedPriceList], hour_s: int) -> DatedPriceList | None:
    """Find the list that is in force in an hour: the latest that has begun. `lists` is in order of
    their beginnings."""
    found = None
    for one in lists:
        if one.from_s <= hour_s:
            found = one
    return found
