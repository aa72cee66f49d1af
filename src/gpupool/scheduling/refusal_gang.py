"""Why a gang goes nowhere: which role finds too few seats, how many it finds, what stands in the way of one more."""

from __future__ import annotations

from gpupool.model.claim import Reason, Rejection, Within
from gpupool.model.gang import Gang, Role
from gpupool.scheduling import refusal, wording
from gpupool.scheduling.feasible import Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.wording import plural, quoted


def too_few(within: Within, role: Role, room: int, least: int, fit: Fit, free: Free) -> Rejection:
    """Of `least` members that have to start together only `room` find seats; `fit` is that of one member."""
    sentence = wording.too_few_together(role.name, least, room, _where(within))
    if not refusal.card_counts(fit) and role.shape.count == 1:
        return Rejection(sentence, Reason.GANG)
    one = refusal.not_now(fit, free)
    dominant = Reason.GANG if room else one.dominant
    return Rejection(f"{sentence}; each {one.sentence}", dominant, one.cards, one.nodes)


def apart(gang: Gang, members: int) -> Rejection:
    """Every role would find its seats if it were alone."""
    where = _where(gang.root.within)
    sentence = f"{plural(members, 'member')} must start together{where}; each role has room by itself, all have not"
    return Rejection(sentence, Reason.GANG if gang.root.within.required is None else Reason.TOPOLOGY)


def no_room_beside(within: Within) -> Rejection:
    """For a member that would join a gang that runs, where it has to be near the others."""
    return Rejection(f"its gang runs; there is room for one more, but not{_where(within)} with it", Reason.TOPOLOGY)


def unknown_level(level: str, levels: list[str]) -> Rejection:
    sentence = f"no node of this pool says which {quoted(level)} it is in; a gang may ask for {', '.join(levels)}"
    hint = f"label the nodes, or ask for {levels[-1]}"
    return Rejection(sentence, Reason.TOPOLOGY, fits_ever=False, hint=hint)


def larger_than_pool(within: Within, role: Role, room: int, least: int) -> Rejection:
    """Not even the empty pool, with every card in it open, has the seats."""
    sentence = (
        f"{wording.of_role(least, role.name)} must start together{_where(within)};"
        f" with every card of this pool free {room} would find room"
    )
    hint = f"ask for at most {wording.of_role(room, role.name)}" if room else ""
    return Rejection(sentence, Reason.GANG, fits_ever=False, hint=hint)


def never_together(gang: Gang) -> Rejection:
    sentence = (
        f"{plural(gang.minimum, 'member')} must start together{_where(gang.root.within)};"
        " with every card of this pool free each role has room by itself, all have not"
    )
    return Rejection(sentence, Reason.GANG, fits_ever=False, hint="ask for fewer members")


def _where(within: Within) -> str:
    return f" in one {within.required}" if within.required else ""
