"""The cluster as the scheduler sees it: nodes, ledgers and pods come in by name, a `Snapshot` goes out.

What is noted is what the API server said; nothing here asks it. A card is free of what its node's ledger holds. Of its
processors and memory a node has free what others and ours do not ask, be these bound there or in its ledger.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence

from gpupool.kubernetes import gangs, restoring
from gpupool.kubernetes.columns import Columns
from gpupool.kubernetes.entry_index import EntryIndex
from gpupool.kubernetes.heirs import Heirs
from gpupool.kubernetes.hosts import Host, Site, copy_of, handing_out
from gpupool.kubernetes.learning import Learning
from gpupool.kubernetes.leaving import Leaving
from gpupool.kubernetes.members import Members, changed, entries, put, uids, unaccounted
from gpupool.kubernetes.needs import NOTHING
from gpupool.kubernetes.objects import Entry, GpuNode, Order
from gpupool.kubernetes.pods import Pod
from gpupool.kubernetes.queue import PodQueue
from gpupool.kubernetes.rules import Rules, used
from gpupool.kubernetes.shares import Shares
from gpupool.kubernetes.tenants import TenantTree
from gpupool.kubernetes.turned import Turned
from gpupool.model.reservation import Reservation
from gpupool.scheduling.promises import on_cards
from gpupool.scheduling.snapshot import Cards, ClassKey, Plan, Snapshot, Start


class Pool:
    """One leader's working memory; made anew from three lists, then kept by watches."""

    def __init__(self, policy: str = "default", seconds: Callable[[], float] = time.monotonic) -> None:
        self.policy, self.generation = policy, 0
        self.hosts: dict[str, Host] = {}
        self.ledgers: dict[str, GpuNode] = {}
        self.pods: dict[str, Pod] = {}
        self.rules = Rules(self.hosts)
        self.queue = PodQueue(self.rules.of)
        self.held_up: dict[str, str] = {}
        """Pods that cannot be placed anywhere yet, and why."""
        self._judged, self._around, self._outdated = 0, False, False
        self.reservations: tuple[Reservation, ...] = ()
        self.promised: Mapping[ClassKey, Start] = {}
        self._cards: tuple[str, ...] | None = None
        """The list of cards in which the starts name theirs by place."""
        self.shares, self.heirs, self.turned = Shares(), Heirs(seconds, self.hosts), Turned(seconds)
        self.seated, self.unbound = set[str](), set[str]()
        """Pods that have their cards and wear their gate; those that do not, and that no node has taken yet."""
        self.unread = set[str]()
        """Pods that wear their gate and whose claim cannot be read."""
        self._entered = EntryIndex()
        self.departed = set[str]()
        """Pods that stand in a ledger and are gone for certain."""
        self.for_good = set[str]()
        """Pods that are gone and stand in a ledger still, and in whose place nobody makes another."""
        self.members, self._leaving = Members(self.pods, self.heirs), Leaving(seconds)
        self._learning = Learning()
        self._at: dict[str, str] = {}
        self._on: defaultdict[str, set[str]] = defaultdict(set)
        """By node, the managed pods that use it."""
        self._columns = Columns(self.hosts, self.ledgers, self.pods, self._site, self.queue.marks)
        self.unsettled: set[str] = set()
        """Nodes of which something was noted since their ledger was last compared with its pods."""

    # --- what is noted ------------------------------------------------------------------------

    def note_host(self, name: str, host: Host | None) -> None:
        """A Node as it is now; None: it is gone."""
        self.rules.note_host(self.hosts.get(name), host)
        put(self.hosts, name, host)
        self._touch(name)

    def note_ledger(self, name: str, node: GpuNode | None, *, sure: bool = False) -> bool:
        """A GpuNode as it is now (None: gone); False, and nothing noted, for one older than what is known.

        `sure`: it was read after that became known, so that a lower version is of a server with an older copy.
        """
        before = self.ledgers.get(name)
        if not sure and node is not None and before is not None and node.version < before.version:
            return False
        put(self.ledgers, name, node)
        had, has = uids(before), uids(node)
        for uid in has - had:
            self._entered.enter(uid, name)
        for uid in had - has:
            self._entered.leave(uid, name)
            if uid not in self._entered:
                self.for_good.discard(uid)
                self.departed.discard(uid)
        heirs = {heir for uid in had - has if (heir := self.heirs.end(uid))}
        gone, come = changed(entries(before), entries(node))
        self.members.note(gone, come)
        self._leaving.note(gone, come)
        self._learning.note_entries(gone, come)
        self.rules.around.note_repelling(f"node/{name}", name, node.others.apart if node else ())
        self.shares.note(gone, come)
        for uid in (had ^ has) | heirs | (unaccounted(before) ^ unaccounted(node)):
            self._settle(uid)
        self._touch(name)
        return True

    def note_tenants(self, tree: TenantTree) -> None:
        """Another quota tree is in force; who waits may belong to another tenant."""
        self.shares.tree = tree
        for uid in [uid for uid in self.pods if uid in self.queue]:
            self.queue.put(self.queue.find(uid) or self.pods[uid], self.tenant(self.pods[uid]))
        self.generation += 1

    def note_pod(self, uid: str, pod: Pod | None) -> None:
        """A managed pod as it is now; None: it is gone."""
        before = self.pods.get(uid)
        if pod is not None:
            self.departed.discard(uid)
        elif uid in self._entered:
            self.departed.add(uid)
        if pod is None and before is not None and before.gang:
            self.members.note_over(before.gang, uid, gone=True)
            if uid in self._entered and not before.owner:
                self.for_good.add(uid)
        if pod is not None and pod.turned_away and before is not None and not before.ended and pod.node in self.ledgers:
            self.turned.note(pod, self.ledgers[pod.node].others)
            self._touch(pod.node)
        put(self.pods, uid, pod)
        unread = pod is not None and bool(pod.problem) and pod.gated and not pod.deleting
        (self.unread.add if unread else self.unread.discard)(uid)
        self._learning.note_pod(uid, pod)
        self._settle(uid)
        if pod is None and before is not None and uid in self.heirs:
            siblings = [one for one in self.pods.values() if one.owner == before.owner and one.uid in self.queue]
            for one in sorted(siblings, key=lambda one: one.created_ns):
                self._settle(one.uid)

    def gangs(self) -> list[str]:
        """Gangs of which a seat is kept for a member to come, or something stands in a ledger while others wait."""
        waiting = [name for name in self.queue.gang_names() if name in self.members]
        return list(dict.fromkeys((*self.members.with_kept_seats(), *waiting)))

    def claimed(self) -> dict[str, Pod]:
        """By seat that is kept for a member of a gang, the pod that takes it now."""
        found: dict[str, Pod] = {}
        for name in self._gangs_with_kept_seats():
            entered = self.members.present(name).entered
            free = [pod for pod in self.queue.gang(name) if pod.uid not in entered]
            found |= gangs.taken_over(gangs.kept_seats(entered), free, self._takes)
        return found | {uid: self.pods[heir] for uid, heir in self.heirs.heirs().items()}

    def useless(self) -> frozenset[str]:
        """Seats kept for members of gangs that cannot come there, or want another one: they are whole without it."""
        each = ((self.queue.gang(name), *self.members.present(name)[:2]) for name in self._gangs_with_kept_seats())
        return frozenset(uid for gang in each for uid in gangs.useless(*gang, self._takes))

    def _gangs_with_kept_seats(self) -> list[str]:
        """Of those of which somebody waits."""
        return [name for name in self.members.with_kept_seats() if self.queue.has_gang(name)]

    def _takes(self, pod: Pod, seat: Entry) -> bool:
        """Whether the pod may go where that seat is kept, by all but its cards."""
        name, rule = self.ledger_of(seat.uid), self.rules.of(pod)
        if name not in self.hosts or name not in self.ledgers:
            return False
        ledger = self.ledgers[name]
        use = used(ledger.others, [self.pods[uid] for uid in self._on[name]])
        return self.rules.admits(rule, handing_out(self.hosts[name], ledger), use)

    def end_wills(self) -> None:
        """Cards that nobody has inherited in time are given back."""
        for uid in self.heirs.over():
            self.end_will(uid)

    def forget_turned(self) -> None:
        """Pods that were turned away long ago count nowhere any more."""
        self._touch(*self.turned.over())

    def end_will(self, uid: str) -> None:
        """Nothing is kept of what that pod had; who was to inherit it waits as others do."""
        if heir := self.heirs.end(uid):
            self._settle(heir)
        self._touch(self.ledger_of(uid))

    def has_room(self, name: str) -> bool:
        """Whether all who are to be on the node fit there, as far as is known."""
        return name in self.hosts and name in self.ledgers and self._site(name).has_room

    def leaving(self) -> dict[str, str]:
        """By claim whose pod is to be evicted and was not asked yet, for whom; those whom it helps still wait."""
        return {job: claim for job, claim in self._leaving.whom.items() if self.waits(claim)}

    def orders(self) -> Mapping[str, Order]:
        """By claim whose pod was told to leave, what stands in its ledger."""
        return self._leaving.orders

    def waits(self, claim: str) -> bool:
        """Whether a claim, or a gang, by the scheduler's name of it, has no cards yet."""
        uid, _ = gangs.parts_of(claim)
        return uid in self.queue or claim in self.queue.gang_names() or claim in self.queue

    def ledger_of(self, uid: str) -> str:
        """The node in whose ledger the pod, or the member to come, stands; empty where in none."""
        return self._entered.node(uid)

    def node_of(self, uid: str) -> str:
        """Where the pod is bound or has its cards; empty where neither."""
        pod = self.pods.get(uid)
        return (pod.node if pod else "") or self._entered.node(uid)

    def entries_of(self, uid: str) -> list[Entry]:
        """What stands in a ledger for the pod."""
        node = self.ledgers.get(self._entered.node(uid))
        return [entry for entry in entries(node) if entry.uid == uid]

    def tenant(self, pod: Pod) -> str:
        return self.shares.tenant(pod.namespace)

    def _settle(self, uid: str) -> None:
        """Where the pod stands: on a node, in the queue, or nowhere."""
        pod = self.pods.get(uid)
        if pod is not None and pod.gang and pod.over:
            self.members.note_over(pod.gang, uid, gone=False)
        self._move(uid, self.node_of(uid) if pod is not None and not pod.ended else "")
        self._touch(self._entered.node(uid))
        self.queue.remove(uid)
        self.held_up.pop(uid, None)
        waits = pod is not None and pod.waits and (pod.gang or uid not in self._entered)
        if not waits:
            self.heirs.renounce(uid)
            if pod is not None and (lost := self._as_lost(pod)):
                self.queue.put(lost, self.tenant(pod))
        elif pod is not None and (uid in self._entered or not self.heirs.inherits(pod)):
            if said := "" if uid in self._entered else self.rules.waits_for(pod):
                self.held_up[uid] = said
            else:
                self.queue.put(pod, self.tenant(pod))
                self._mark_anew(pod)
        released = pod is not None and not (pod.gated or pod.node or pod.ended or pod.deleting)
        for into, belongs in ((self.unbound, released), (self.seated, pod is not None and pod.gated)):
            (into.add if belongs and uid in self._entered else into.discard)(uid)
        self.generation += 1

    def _as_lost(self, pod: Pod) -> Pod | None:
        """One that was let go and stands in no ledger, as it waits; None where it does, or its containers run."""
        lost = None if pod.uid in self._entered else restoring.as_it_waits(pod)
        return None if pod.uid in unaccounted(self.ledgers.get(pod.node)) else lost

    def _move(self, uid: str, node: str) -> None:
        self.rules.note(uid, self.pods.get(uid), node)
        was = self._at.pop(uid, "")
        if was:
            self._on[was].discard(uid)
        if node:
            self._on[node].add(uid)
            self._at[uid] = node
        self._touch(was, node)

    def _touch(self, *names: str) -> None:
        for name in names:
            if name:
                self._columns.touch(name)
                self.unsettled.add(name)

    # --- what the scheduler sees --------------------------------------------------------------

    @property
    def sites(self) -> Sequence[Site]:
        """Nodes with cards, as the last snapshot had them."""
        return self._columns.sites

    def site(self, name: str) -> Site:
        """The node as the last snapshot had it."""
        return self._columns.site(name)

    def keep_promises(self, plan: Plan) -> None:
        """It is the last one from now on. A promise stands until its claim sits: what is planned may not be written."""
        placed = {placement.gang or placement.job for placement in plan.placements}
        stands = {key: start for key, start in self.promised.items() if start.firm and start.claim in placed}
        self.promised = {**stands, **{key: start for key, start in plan.starts.items() if start.reserved}}

    def _promised_on(self, cards: Cards) -> Mapping[ClassKey, Start]:
        """Promises name their cards, so they outlive the list."""
        if cards.uuids != self._cards:
            there = {key: on_cards(start, cards) for key, start in self.promised.items() if start.firm}
            self.promised = {key: start for key, start in there.items() if start is not None}
            self._cards = cards.uuids
        return self.promised

    def refresh(self) -> None:
        """Bring `sites` up to what was noted."""
        self._judge()
        self._columns.now()

    def snapshot(self, now_ns: int = 0, without: Collection[str] = ()) -> Snapshot:
        """A frozen copy, `without` these gangs. What is not in it waits for its Node or its GpuNode to appear."""
        self._judge()
        present = self.members.present_without(self.useless())
        waiting = self.queue.waiting(present, self._takes, self.members.begun)
        if without:
            waiting = tuple(one for one in waiting if one.gang is None or one.gang.id not in without)
        copied = copy_of(self._columns.now())
        tenants = self.shares.views((entry.tenant for entry in waiting), copied, now_ns)
        return Snapshot(
            self.generation,
            copied,
            tenants,
            waiting,
            self.policy,
            self._columns.running.all(),
            self.reservations,
            expected=self._learning.expected(len(copied.uuids)),
            promised=self._promised_on(copied),
            cohorts=self.shares.tree.cohorts,
            owed=self._leaving.owed(),
        )

    def _judge(self) -> None:
        """What is known of volumes and of other pods has changed: who waits is looked at by that."""
        if self._judged == self.rules.version:
            return
        around, self._around = self._around, self.rules.around.known
        for uid in self._at if self._around and not around else ():
            self.rules.note(uid, self.pods.get(uid), self._at[uid])
        self._outdated, self._judged = True, self.rules.version
        for pod in self.rules.concerned(self.pods[uid] for uid in (*self.held_up, *self.queue.uids())):
            self._settle(pod.uid)
            self._mark_anew(pod)

    def _mark_anew(self, pod: Pod) -> None:
        """Nodes were marked by what was known before: for the next one who depends on it they are marked again."""
        if self._outdated and pod.needs is not NOTHING:
            self._columns.lay_anew()
            self._outdated = False

    def _site(self, name: str) -> Site:
        """The node as it is now."""
        host, ledger = handing_out(self.hosts[name], self.ledgers[name]), self.ledgers[name]
        ours = [*(self.pods[uid] for uid in self._on[name]), *self.turned.counted(name, ledger.others)]
        use = used(ledger.others, ours)
        marks = {label: "" for rule, label in self.queue.marks.items() if self.rules.admits(rule, host, use)}
        return Site(host, ledger, use, marks)
