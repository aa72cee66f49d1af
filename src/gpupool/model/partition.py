"""The shapes a card can be cut into, where each may sit, and which of them fit together.

A card is a row of memory units (8 on A100 to B300, 4 on A30, 12 on RTX PRO 6000). A profile takes
`size` of them side by side from one of its `starts`. Two partitions may stand together when their
units are disjoint, no profile is used more than `max_count` times, and at most one of them holds
the media engines. This room knows geometry; it does not know how a partition is made (mechanisms)
nor which one is wise to take (scheduling).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class PartitionProfile:
    """A shape: `1g.18gb` and so on. `gpu_milli` is its part of the card's compute in
    thousandths."""

    name: str
    size: int
    memory_bytes: int
    starts: tuple[int, ...]
    max_count: int
    gpu_milli: int
    profile_id: int | None = None  # the driver's number; it differs between boards
    media: bool = False  # holds the engines of which a card has one set (`+me` shapes)

    @property
    def is_plain(self) -> bool:
        """Whether it is the usual shape of its size: no media or graphics variant."""
        return "+" not in self.name and "-" not in self.name


@dataclass(frozen=True, order=True)
class PartitionSlot:
    """`size` units from `start` on, for one profile."""

    start: int
    size: int
    profile: str

    @property
    def units(self) -> range:
        return range(self.start, self.start + self.size)


@dataclass(frozen=True)
class Partition:
    """A piece that exists on a card now. `uuid` is the driver's (`MIG-…`), None until it has
    one."""

    device_uuid: str
    slot: PartitionSlot
    uuid: str | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None


@dataclass(frozen=True)
class ForeignPiece:
    """Something on a card that gpupool did not create; it is shown and never touched.

    Attributes:
        text: what it is, for people.
        slot: where it is, for a partition.
    """

    text: str
    slot: PartitionSlot | None = None

    def describe(self) -> str:
        """Return it with its place, for people: `slot 4 to 5: GPU instance 7 …`."""
        return self.text if self.slot is None else f"{describe_place(self.slot)}: {self.text}"


def describe_place(slot: PartitionSlot) -> str:
    """Return the units of a slot, for people.

    >>> describe_place(PartitionSlot(4, 2, "2g.35gb")), describe_place(PartitionSlot(6, 1, "1g"))
    ('slot 4 to 5', 'slot 6')
    """
    last = slot.start + slot.size - 1
    return f"slot {slot.start}" if slot.size == 1 else f"slot {slot.start} to {last}"


def list_slots(profiles: Iterable[PartitionProfile]) -> tuple[PartitionSlot, ...]:
    """Every place any of the profiles may take on an empty card, lowest start first."""
    return tuple(sorted(PartitionSlot(s, p.size, p.name) for p in profiles for s in p.starts))


def can_add_slot(
    profiles: Sequence[PartitionProfile], taken: Iterable[PartitionSlot], wanted: PartitionSlot
) -> bool:
    """Whether `wanted` can stand beside `taken`, which is itself a valid set.

    >>> half = PartitionProfile("3g", 4, 0, (0, 4), 2, 428)
    >>> can_add_slot([half], [PartitionSlot(0, 4, "3g")], PartitionSlot(4, 4, "3g"))
    True
    >>> can_add_slot([half], [PartitionSlot(0, 4, "3g")], PartitionSlot(0, 4, "3g"))
    False
    """
    by_name = {p.name: p for p in profiles}
    shape = by_name.get(wanted.profile)
    beside = tuple(taken)
    if shape is None or wanted.start not in shape.starts or wanted.size != shape.size:
        return False
    if any(_do_overlap(wanted, other) for other in beside):
        return False
    if sum(other.profile == wanted.profile for other in beside) >= shape.max_count:
        return False
    if not shape.media:
        return True
    # A card has one set of media engines; a second partition with them cannot be made.
    return not any(by_name[other.profile].media for other in beside if other.profile in by_name)


def is_valid_set(profiles: Sequence[PartitionProfile], chosen: Iterable[PartitionSlot]) -> bool:
    """Whether all of `chosen` can exist together; the order in which they are made does not
    matter."""
    standing: list[PartitionSlot] = []
    for one in chosen:
        if not can_add_slot(profiles, standing, one):
            return False
        standing.append(one)
    return True


def list_free_slots(
    profiles: Sequence[PartitionProfile], taken: Iterable[PartitionSlot]
) -> tuple[PartitionSlot, ...]:
    """Every place that is still open beside `taken`: what a choice leaves, and so what it costs."""
    beside = tuple(taken)
    found = []
    for p in list_slots(profiles):
        if can_add_slot(profiles, beside, p):
            found.append(p)
    return tuple(found)


def find_open_slot(
    profiles: Sequence[PartitionProfile], taken: Iterable[PartitionSlot], name: str
) -> PartitionSlot | None:
    """Return the slot for a profile that leaves the most slots open, the highest start of equals.

    It does not know what is asked for; `scheduling` chooses by demand. None if no slot is open.
    """
    beside = tuple(taken)
    found = list[tuple[int, int, PartitionSlot]]()
    for slot in list_free_slots(profiles, beside):
        if slot.profile == name:
            left = len(list_free_slots(profiles, (*beside, slot)))
            found.append((left, slot.start, slot))
    return max(found)[2] if found else None


def count_fitting(
    profiles: Sequence[PartitionProfile], taken: Sequence[PartitionSlot], profile: PartitionProfile
) -> int:
    """How many of one profile could be cut beside `taken`, all at once.

    Pieces of one size on a row: taking each as low as it goes is the best that can be done.
    """
    standing = list(taken)
    for start in sorted(profile.starts):
        wanted = PartitionSlot(start, profile.size, profile.name)
        if can_add_slot(profiles, standing, wanted):
            standing.append(wanted)
    return len(standing) - len(taken)


def format_mix(taken: Iterable[PartitionSlot]) -> str:
    """The mix in words, as people write it: `2 x 1g.18gb + 3g.71gb`.

    >>> format_mix([PartitionSlot(0, 4, "3g"), PartitionSlot(4, 1, "1g"), PartitionSlot(5, 1, "1g")])
    '3g + 2 x 1g'
    """
    counts = Counter(p.profile for p in sorted(taken))
    texts = []
    for name, count in counts.items():
        texts.append(name if count == 1 else f"{count} x {name}")
    return " + ".join(texts)


def _do_overlap(one: PartitionSlot, other: PartitionSlot) -> bool:
    return one.start < other.start + other.size and other.start < one.start + one.size


def write_profiles(profiles: Iterable[PartitionProfile]) -> list[dict[str, Any]]:
    """Profiles ready for JSON, as an agent publishes them."""
    return [asdict(one) | {"starts": list(one.starts)} for one in profiles]


def read_profiles(facts: Iterable[Mapping[str, Any]]) -> tuple[PartitionProfile, ...]:
    """What `write_profiles` wrote."""
    profiles = []
    for one in facts:
        profiles.append(PartitionProfile(**{**one, "starts": tuple(one["starts"])}))
    return tuple(profiles)


def write_partition_slots(taken: Iterable[PartitionSlot]) -> list[list[Any]]:
    """Pieces ready for JSON, lowest start first."""
    return [[one.start, one.size, one.profile] for one in sorted(taken)]


def read_partition_slots(listed: Iterable[Sequence[Any]] | None) -> tuple[PartitionSlot, ...]:
    """What `write_partition_slots` wrote; None is none."""
    return tuple(PartitionSlot(*one) for one in listed or ())


def write_foreign_pieces(pieces: Iterable[ForeignPiece]) -> list[dict[str, Any]]:
    """Foreign pieces ready for JSON, as an agent publishes them."""
    written = []
    for one in pieces:
        slot = None if one.slot is None else [one.slot.start, one.slot.size, one.slot.profile]
        written.append({"text": one.text, "slot": slot})
    return written


def read_foreign_pieces(facts: Mapping[str, Any]) -> tuple[ForeignPiece, ...]:
    """Return the foreign pieces among a card's facts."""
    pieces = []
    for one in facts.get("foreign", ()):
        slot = None if one["slot"] is None else PartitionSlot(*one["slot"])
        pieces.append(ForeignPiece(one["text"], slot))
    return tuple(pieces)


def list_foreign_slots(
    facts: Mapping[str, Any], own: Iterable[PartitionSlot]
) -> tuple[PartitionSlot, ...]:
    """Return the slots that foreign pieces take beside our own.

    An agent may look at a card between the creation of our own partition and its record's end; the
    ledger is right then.
    """
    return select_foreign_slots(read_foreign_pieces(facts), own)


def select_foreign_slots(
    pieces: Iterable[ForeignPiece], own: Iterable[PartitionSlot]
) -> tuple[PartitionSlot, ...]:
    """Return the slots of foreign pieces that overlap none of our own."""
    ours = tuple(own)
    found = []
    for piece in pieces:
        if piece.slot is not None and not any(_do_overlap(piece.slot, one) for one in ours):
            found.append(piece.slot)
    return tuple(found)


def read_occupied_slots(
    facts: Mapping[str, Any], listed: Iterable[Sequence[Any]] | None
) -> tuple[PartitionSlot, ...]:
    """Return the slots of a card that are taken by our own partitions and by foreign ones.

    Args:
        facts: of the card.
        listed: our own, as `write_partition_slots` wrote them.
    """
    own = read_partition_slots(listed)
    return tuple(sorted((*own, *list_foreign_slots(facts, own))))
