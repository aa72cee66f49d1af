"""What would help somebody who waits: ask for less or other, adopt a card, stop something of one's own, wait until t.

Whatever is offered was tried on the pool as the plan leaves it; it is never a guess. Of running jobs only those of the
asker's own tenant are spoken of: whose the others are is not everybody's to know.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gpupool.model.claim import Reason, Rejection
from gpupool.model.quota import Amount
from gpupool.scheduling import wording_help, wording_reach
from gpupool.scheduling.cycle import Run
from gpupool.scheduling.feasible import CODE, Fit
from gpupool.scheduling.gang import Missing, Muster, Path, room_by_role
from gpupool.scheduling.nearest import Near
from gpupool.scheduling.quotas import Quotas
from gpupool.scheduling.reach import Cause, Reach
from gpupool.scheduling.snapshot import Start, Waiting

#: Rejections whose own hint is true whatever else helps.
_WITH_HINT = frozenset({Reason.QUOTA, Reason.RESERVED})


def helps(
    said: Rejection,
    waiting: Waiting,
    after: Run,
    options: Near | None,
    start: Start | None,
    reached: Reach,
    *,
    chance_pct: int | None = None,
    first: bool = True,
) -> tuple[str, ...]:
    """Sentences for people, what changes least first; `options` are None for a gang.

    `start` is that of the class's first claim, `first` whether it is that one that asks.
    """
    if said.dominant is Reason.BEHIND:
        return ()
    found = [*_asking(waiting, after, options), *_adopting(said, waiting, after), *_own(said, waiting, after)]
    if not reached.starts:
        return (*found, *_by_people(reached))
    if said.dominant in _WITH_HINT:
        found += [said.hint] if said.hint else []
    if said.dominant is Reason.QUOTA:
        found.append(_quota(waiting, after))
    at_ns = _lower_at(said, waiting, after)
    if at_ns and (start is None or at_ns < start.at_ns):
        found.append(wording_help.wait_for_lower(at_ns, after.evicting.rules.protected_s))
    elif start is not None:
        words = wording_help.wait_until if first else wording_help.wait_for_first
        found.append(words(start.by_ns, promised=start.firm, chance_pct=chance_pct))
    elif said.fits_ever:
        found.append(wording_help.WAIT)
    return tuple(found) or ((said.hint,) if said.hint else ())


def _asking(waiting: Waiting, after: Run, options: Near | None) -> list[str]:
    if options is not None:
        return [wording_help.fits_now(shape) for shape in options.all()]
    asked = after.gangs[waiting.gang.id] if waiting.gang else None
    if asked is None:
        return []
    fewer = next(_smaller_gangs(waiting, asked, after), None)
    return [] if fewer is None else [wording_help.fewer_members(asked.roles[fewer[0]].name, fewer[1])]


def _smaller_gangs(waiting: Waiting, asked: Missing, after: Run) -> Iterator[tuple[Path, int]]:
    """The first role of which fewer members would be enough for the whole gang to start now."""
    for path, room in room_by_role(after.work, asked).items():
        if 0 < room < asked.least[path]:
            smaller = replace(asked, least={**asked.least, path: room})
            mark = after.work.mark()
            if Muster(after.work, waiting.tenant, smaller).gather_least():
                yield path, room
            after.work.rollback(mark)


def _fits(waiting: Waiting, after: Run) -> list[Fit]:
    """The shapes that the class asks for, against what is free."""
    if waiting.gang is None:
        return [after.work.fit(waiting.shape)]
    return [after.work.fit(role.shape) for role in waiting.gang.root.roles()]


def _adopting(said: Rejection, waiting: Waiting, after: Run) -> list[str]:
    observed = [int(np.count_nonzero(fit.fixed == CODE[Reason.NOT_ADOPTED])) for fit in _fits(waiting, after)]
    return [wording_help.adopt(max(observed))] if any(observed) and said.dominant is not Reason.QUOTA else []


def _own(said: Rejection, waiting: Waiting, after: Run) -> list[str]:
    """Whether it would start if its own tenant stopped what it runs on cards that the claim could use."""
    usable = np.logical_or.reduce([fit.possible for fit in _fits(waiting, after)])
    running = after.snapshot.running
    own = [job for job in running if job.tenant == waiting.tenant and usable[list(job.rows)].any()]
    if not own or said.dominant is Reason.QUOTA:
        return []
    mark = after.work.mark()
    after.work.release(own)
    enough = after.would_fit(waiting)
    after.work.rollback(mark)
    cards = len({row for job in own for row in job.rows if usable[row]})
    return [wording_help.own_jobs(waiting.tenant, len(own), cards)] if enough else []


def _lower_at(said: Rejection, waiting: Waiting, after: Run) -> int:
    """When all that is preemptible may be told to leave, where that is enough and some is too young now; else 0."""
    jobs, at_ns = after.evicting.open_at(waiting.priority)
    if at_ns <= after.now_ns or said.dominant is Reason.QUOTA:
        return 0
    mark = after.work.mark()
    after.work.release(jobs)
    enough = after.would_fit(waiting)
    after.work.rollback(mark)
    return at_ns if enough else 0


def _by_people(reached: Reach) -> list[str]:
    """What lets a claim start that no end of a job does."""
    found = [wording_reach.resubmit(reached.options)] if reached.options else []
    if reached.cause is Cause.QUOTA:
        found += [wording_reach.ADMIN, wording_reach.NO_QUOTA]
    return found


def _quota(waiting: Waiting, after: Run) -> str:
    """What makes room in the quota: the ends of its own tenant's jobs only where those are enough."""
    now, tenant = after.snapshot, waiting.tenant
    tenants = {**now.tenants, tenant: replace(now.tenants[tenant], held=Amount())}
    without = replace(now, tenants=tenants, running=tuple(job for job in now.running if job.tenant != tenant))
    quotas = Quotas(without, after.work.free)
    quotas.firm = not waiting.preemptible
    own = quotas.admitted(tenant, waiting.shape, after.least(waiting)) is not None
    return wording_help.free_quota(tenant) if own else wording_help.raise_quota()
