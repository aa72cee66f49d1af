"""The pods of a plan, each judged beside those before it: two that are both fine may not be so together.

Who does not fit beside the others is left out and planned again at once, when these are known. Of a gang its other
members keep their place: it comes together member by member, or is given up like any that does not (`holding`). Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from gpupool.kubernetes import gangs
from gpupool.kubernetes.hosts import Use
from gpupool.kubernetes.needs import NOTHING
from gpupool.kubernetes.pods import Pod
from gpupool.kubernetes.pool import Pool
from gpupool.kubernetes.reported import Others
from gpupool.kubernetes.rules import Demand, Plus, Rule, seen, told, used
from gpupool.scheduling.snapshot import Placement


def kept(placements: Sequence[Placement], pool: Pool) -> tuple[Placement, ...]:
    """Those that fit together."""
    parts: defaultdict[str, list[Placement]] = defaultdict(list)
    for placement in placements:
        parts[gangs.parts_of(placement.job)[0]].append(placement)
    plus, seats, found = Plus(), defaultdict[str, int](int), list[Placement]()
    for uid, its in parts.items():
        pod, node = pod_of(uid, its[0], pool), its[0].node
        if pod is None or not _fits(pod, node, len(its), pool, plus, seats[node]):
            continue
        _add(pod, node, plus)
        seats[node] += len(its)
        found += its
    return tuple(found)


def pod_of(uid: str, placement: Placement, pool: Pool) -> Pod | None:
    """Whose placement it is; of a member that does not exist yet, one of its gang that does."""
    if gangs.expected(uid):
        return next(iter(pool.queue.gang(placement.gang)), None)
    return pool.queue.find(uid) or pool.pods.get(uid)


def _fits(pod: Pod, node: str, containers: int, pool: Pool, plus: Plus, seats: int) -> bool:
    site, more = pool.site(node), plus.use.get(node, Use())
    use = site.use + more if more.pods else site.use
    if use.pods >= site.host.pods or len(site.ledger.entries) + seats + containers > site.ledger.slot_count:
        return False
    rule = pool.rules.of(pod)
    if plus.repelling:
        around, space = pool.rules.around, (pod.namespace, pod.labels)
        away = [one for _, apart in plus.repelling for one in apart if one.matches(*space, around.spaces)]
        if node in around.repelled(away, plus.repelling):
            return False
    return not isinstance(rule, Demand) or not pool.rules.why_not(rule, site.host, use, plus)


def _add(pod: Pod, node: str, plus: Plus) -> None:
    """Those after it see the pod there."""
    plus.use[node] = plus.use.get(node, Use()) + used(Others(), [pod])
    plus.seen.append(seen(pod, node))
    if pod.needs is not NOTHING and pod.needs.apart:
        plus.repelling.append((node, pod.needs.apart))


def admitting(rule: Rule, pool: Pool) -> list[str]:
    """Nodes that can take a pod of that rule, by all but its cards."""
    return [site.host.name for site in pool.sites if pool.rules.admits(rule, site.host, site.use)]


def why_nowhere(rule: Rule, pool: Pool) -> tuple[str, bool]:
    """Which of its parts keep such a pod from which nodes, and whether another node would help; empty where none."""
    return told([pool.rules.why_not(rule, site.host, site.use) for site in pool.sites])


def crowded(pool: Pool) -> dict[str, str]:
    """Gangs of which each member wants a node without the others, where there are fewer nodes; by name, and why."""
    rules = ((gang, pool.rules.of(pool.queue.oldest_of(gang))) for gang in pool.queue.gang_names())
    apart = [(gang, rule) for gang, rule in rules if isinstance(rule, Demand)]
    if apart:
        pool.refresh()
    found: dict[str, str] = {}
    for gang, rule in apart:
        pod, present = pool.queue.oldest_of(gang), pool.members.present(gang)
        lacking = max(1, pod.gang_minimum - len(present.entered) - present.over)
        if rule.one_a_node and lacking > (nodes := len(admitting(rule, pool))):
            found[gang] = f"{lacking} members each want a node of their own, and {nodes} can take one now"
    return found
