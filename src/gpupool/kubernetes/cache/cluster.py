"""The cluster cache: nodes, ledgers and pods as the API server reported them.

The controller notes every change here, and the scheduler gets a `Snapshot`. The cache sends no
requests. A card's free capacity is what its node's ledger leaves. A node's free CPU and memory is
what foreign pods and managed pods leave, whether these are bound to the node or only in its ledger.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from gpupool.kubernetes.cache import ledger_restore
from gpupool.kubernetes.cache.cluster_state import ClusterState
from gpupool.kubernetes.cache.demand_statistics import DemandStatistics
from gpupool.kubernetes.cache.eviction_orders import EvictionOrders
from gpupool.kubernetes.cache.gang_members import (
    changed_entries,
    ledger_entries,
    ledger_uids,
    put_or_remove,
    unaccounted_uids,
)
from gpupool.kubernetes.cache.gang_seats import GangSeats
from gpupool.kubernetes.cache.snapshot_builder import SnapshotBuilder
from gpupool.kubernetes.cache.tenant_usage import TenantUsage
from gpupool.kubernetes.resources import gang as gangs
from gpupool.kubernetes.resources.gpu_node import Entry, EvictionOrder, GpuNode
from gpupool.kubernetes.resources.node import NodeFacts, NodeState
from gpupool.kubernetes.resources.pod import Pod
from gpupool.kubernetes.resources.tenant import TenantTree
from gpupool.model.reservation import Reservation
from gpupool.scheduling import Snapshot


class ClusterCache:
    """The memory of one leading controller; built from lists, then kept current by watches.

    Attributes:
        policy: name of the placement policy.
        generation: changes whenever the next snapshot may differ.
        unplaceable: by uid of a pod that no node can take yet, the reason.
        reservations: accepted reservations.
        awaiting_release: pods that have their cards and still have the scheduling gate.
        awaiting_binding: released pods that no node has taken yet.
        unreadable: gated pods whose claim cannot be read.
        departed: pods that have an entry in a ledger and certainly do not exist any more.
        not_replaced: departed gang members without an owner that creates a replacement.
        unsettled: nodes that changed since their ledger was last compared with its pods.
    """

    def __init__(
        self, policy: str = "default", seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self.policy = policy
        self.generation = 0
        self._state = ClusterState(seconds)
        self.hosts = self._state.hosts
        self.ledgers = self._state.ledgers
        self.pods = self._state.pods
        self.predicates = self._state.predicates
        self.queue = self._state.queue
        self.unplaceable = self._state.unplaceable
        self.handover = self._state.handover
        self.rejections = self._state.rejections
        self.members = self._state.members
        self.reservations: tuple[Reservation, ...] = ()
        self.tenant_usage = TenantUsage()
        self.awaiting_release = set[str]()
        self.awaiting_binding = set[str]()
        self.unreadable = set[str]()
        self.departed = set[str]()
        self.not_replaced = set[str]()
        self.unsettled: set[str] = set()
        self._entered = self._state.entry_index
        self._evictions = EvictionOrders(seconds)
        self._demand = DemandStatistics()
        self.gang_seats = GangSeats(self._state)
        self._builder = SnapshotBuilder(
            self._state, self.gang_seats, self.tenant_usage, self._settle_pod
        )
        self.promises = self._builder.promises

    # --- changes ------------------------------------------------------------------------------

    def note_host(self, name: str, host: NodeFacts | None) -> None:
        """Note a Node as it is now; None means deleted."""
        self.predicates.note_host(self.hosts.get(name), host)
        put_or_remove(self.hosts, name, host)
        self._mark_changed(name)

    def note_ledger(self, name: str, node: GpuNode | None, *, sure: bool = False) -> bool:
        """Note a GpuNode as it is now; None means deleted.

        Args:
            sure: it was read after the known one, so a lower version comes from a server with an
                older copy of its store.

        Returns:
            False if the ledger is older than the known one. Nothing is noted then.
        """
        before = self.ledgers.get(name)
        # An answer to our own write may arrive before older events of the watch. Taken back, its
        # cards would be given out again.
        if not sure and node is not None and before is not None and node.version < before.version:
            return False
        put_or_remove(self.ledgers, name, node)
        old_uids = ledger_uids(before)
        new_uids = ledger_uids(node)
        for uid in new_uids - old_uids:
            self._entered.add_entry(uid, name)
        successors: set[str] = set()
        for uid in old_uids - new_uids:
            self._remove_entry(uid, name)
            if successor := self.handover.end_handover(uid):
                successors.add(successor)
        gone, come = changed_entries(ledger_entries(before), ledger_entries(node))
        self.members.note_entries(gone, come)
        self._evictions.note_entries(gone, come)
        self._demand.note_entries(gone, come)
        anti_affinity = node.others.apart if node else ()
        self.predicates.around.note_anti_affinity(f"node/{name}", name, anti_affinity)
        self.tenant_usage.note_entries(gone, come)
        # Last, when everything that `_settle_pod` asks about knows the new ledger.
        changed_uids = old_uids ^ new_uids
        reported_uids = unaccounted_uids(before) ^ unaccounted_uids(node)
        for uid in changed_uids | successors | reported_uids:
            self._settle_pod(uid)
        self._mark_changed(name)
        return True

    def _remove_entry(self, uid: str, name: str) -> None:
        self._entered.remove_entry(uid, name)
        if uid not in self._entered:
            self.not_replaced.discard(uid)
            self.departed.discard(uid)

    def note_tenants(self, tree: TenantTree) -> None:
        """Use another quota tree; waiting pods may belong to another tenant."""
        self.tenant_usage.tree = tree
        for uid in self.queue.pod_uids():
            waiting = self.queue.find_pod(uid) or self.pods[uid]
            self.queue.put_pod(waiting, self.tenant_of(self.pods[uid]))
        self.generation += 1

    def note_pod(self, uid: str, pod: Pod | None) -> None:
        """Note a managed pod as it is now; None means deleted."""
        before = self.pods.get(uid)
        # Only a reported deletion proves that a pod is gone; an entry whose pod was never reported
        # may just be ahead of the watch of pods (`entry_withdrawal`).
        if pod is not None:
            self.departed.discard(uid)
        elif uid in self._entered:
            self.departed.add(uid)
        if pod is None and before is not None and before.gang:
            self.members.note_ended(before.gang, uid, gone=True)
            if uid in self._entered and not before.owner:
                self.not_replaced.add(uid)
        if pod is not None and before is not None:
            self._note_rejection(before, pod)
        put_or_remove(self.pods, uid, pod)
        if pod is not None and pod.problem and pod.gated and not pod.deleting:
            self.unreadable.add(uid)
        else:
            self.unreadable.discard(uid)
        self._demand.note_pod(uid, pod)
        self._settle_pod(uid)
        if pod is None and before is not None and uid in self.handover:
            self._offer_seats(before.owner)

    def _note_rejection(self, before: Pod, pod: Pod) -> None:
        if pod.kubelet_rejection and not before.ended and pod.node in self.ledgers:
            self.rejections.note_rejection(pod, self.ledgers[pod.node].others)
            self._mark_changed(pod.node)

    def _offer_seats(self, owner: str) -> None:
        """Let waiting pods of the owner take seats that were kept for a replacement."""
        siblings = []
        for pod in self.pods.values():
            if pod.owner == owner and pod.uid in self.queue:
                siblings.append(pod)
        # The oldest replacement first, as the queue orders them.
        for pod in sorted(siblings, key=lambda pod: pod.created_ns):
            self._settle_pod(pod.uid)

    def expire_handovers(self) -> None:
        """Release cards that no replacement pod took in time."""
        for uid in self.handover.expired_pods():
            self.end_handover(uid)

    def end_handover(self, uid: str) -> None:
        """Stop keeping the pod's cards; its successor waits like other pods."""
        if successor := self.handover.end_handover(uid):
            self._settle_pod(successor)
        self._mark_changed(self.ledger_node_of(uid))

    def expire_rejections(self) -> None:
        """Stop counting pods that a kubelet rejected long ago."""
        self._mark_changed(*self.rejections.expire_counts())

    def note_unwritable(self, names: Iterable[str]) -> None:
        """Let these nodes take no pods: the API server refuses to write their ledgers."""
        changed = self._state.unwritable ^ set(names)
        self._state.unwritable ^= changed
        self._mark_changed(*changed)

    # --- queries ------------------------------------------------------------------------------

    def has_room(self, name: str) -> bool:
        """Whether all pods that belong on the node fit there, as far as is known."""
        known = name in self.hosts and name in self.ledgers
        return known and self._state.read_node(name).has_room

    def pending_evictions(self) -> dict[str, str]:
        """By victim's claim, the beneficiary, while that one still waits."""
        evictions = self._evictions.beneficiary_of.items()
        pending = {}
        for job, claim in evictions:
            if self.is_waiting(claim):
                pending[job] = claim
        return pending

    def eviction_orders(self) -> Mapping[str, EvictionOrder]:
        """By victim's claim, the eviction order in its ledger."""
        return self._evictions.orders

    def is_waiting(self, claim: str) -> bool:
        """Whether a claim, or a gang, by the scheduler's name of it, has no cards yet."""
        uid, _ = gangs.split_job_name(claim)
        return uid in self.queue or claim in self.queue.gang_names() or claim in self.queue

    def ledger_node_of(self, uid: str) -> str:
        """The node whose ledger has an entry of the pod or future member; empty if none has."""
        return self._entered.node_of(uid)

    def node_of(self, uid: str) -> str:
        """The node that the pod is bound to or has cards on; empty if there is none."""
        pod = self.pods.get(uid)
        return (pod.node if pod else "") or self._entered.node_of(uid)

    def entries_of(self, uid: str) -> list[Entry]:
        """The pod's entries in its ledger."""
        node = self.ledgers.get(self._entered.node_of(uid))
        entries = []
        for entry in ledger_entries(node):
            if entry.uid == uid:
                entries.append(entry)
        return entries

    def tenant_of(self, pod: Pod) -> str:
        """The tenant of the pod's namespace."""
        return self.tenant_usage.tenant_of(pod.namespace)

    # --- where each pod is --------------------------------------------------------------------

    def _settle_pod(self, uid: str) -> None:
        """Sort the pod anew: on a node, in the queue, unplaceable, or gone."""
        pod = self.pods.get(uid)
        if pod is not None and pod.gang and pod.is_over:
            self.members.note_ended(pod.gang, uid, gone=False)
        self._move_pod(uid, self.node_of(uid) if pod is not None and not pod.ended else "")
        self._mark_changed(self._entered.node_of(uid))
        self.queue.remove_pod(uid)
        self.unplaceable.pop(uid, None)
        has_entry = uid in self._entered
        # A gang member with an entry stays in the queue: its gang is planned as a whole, and the
        # queue knows which members have cards already.
        if pod is None or not pod.is_waiting or (has_entry and not pod.gang):
            self.handover.release_successor(uid)
            if pod is not None and (lost := self._read_lost_pod(pod)):
                self.queue.put_pod(lost, self.tenant_of(pod))
        elif has_entry or not self.handover.assign_successor(pod):
            self._enqueue_pod(pod)
        self.awaiting_binding.discard(uid)
        self.awaiting_release.discard(uid)
        if pod is not None and (has_entry or ledger_restore.is_released(pod)):
            if pod.gated:
                self.awaiting_release.add(uid)
            # Also without an entry: its node may have gone before the pod was bound there.
            elif not (pod.node or pod.ended or pod.deleting):
                self.awaiting_binding.add(uid)
        self.generation += 1

    def _enqueue_pod(self, pod: Pod) -> None:
        reason = "" if pod.uid in self._entered else self.predicates.why_unplaceable(pod)
        if reason:
            self.unplaceable[pod.uid] = reason
            return
        self.queue.put_pod(pod, self.tenant_of(pod))
        self._builder.relabel_nodes(pod)

    def _read_lost_pod(self, pod: Pod) -> Pod | None:
        """A released pod without an entry, as it waits for cards; None for every other pod.

        A pod whose containers hold cards that no entry names gets no others.
        """
        if pod.uid in self._entered or pod.uid in unaccounted_uids(self.ledgers.get(pod.node)):
            return None
        return ledger_restore.as_waiting(pod)

    def _move_pod(self, uid: str, node: str) -> None:
        self.predicates.note_pod(uid, self.pods.get(uid), node)
        before = self._state.node_by_pod.pop(uid, "")
        if before:
            self._state.pods_by_node[before].discard(uid)
        if node:
            self._state.pods_by_node[node].add(uid)
            self._state.node_by_pod[uid] = node
        self._mark_changed(before, node)

    def _mark_changed(self, *names: str) -> None:
        for name in names:
            if name:
                self._builder.columns.mark_stale(name)
                self.unsettled.add(name)

    # --- what the scheduler gets --------------------------------------------------------------

    @property
    def node_states(self) -> Sequence[NodeState]:
        """Nodes with cards, as the last snapshot had them."""
        return self._builder.columns.sites

    def node_state(self, name: str) -> NodeState:
        """The node as the last snapshot had it."""
        return self._builder.columns.node_state(name)

    def refresh_columns(self) -> None:
        """Bring `node_states` up to date with the noted changes."""
        self._builder.refresh_columns()

    def take_snapshot(self, now_ns: int = 0, without: Collection[str] = ()) -> Snapshot:
        """A frozen copy for one scheduling cycle.

        A pod or ledger whose Node or GpuNode is not known yet is not in it.

        Args:
            now_ns: wall clock, in nanoseconds since the epoch.
            without: gangs that are left out.
        """
        self._builder.evaluate_waiting_pods()  # may change the generation
        return self._builder.build_snapshot(
            self.generation,
            self.policy,
            now_ns,
            without,
            self.reservations,
            self._evictions.list_beneficiaries,
            self._demand.expected_demand,
        )
