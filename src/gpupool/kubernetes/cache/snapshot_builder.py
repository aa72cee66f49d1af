"""Builds the scheduler's snapshot from the cluster cache."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from gpupool.kubernetes.cache.card_columns import CardColumns
from gpupool.kubernetes.cache.cluster_state import ClusterState
from gpupool.kubernetes.cache.gang_seats import GangSeats
from gpupool.kubernetes.cache.promised_starts import PromisedStarts
from gpupool.kubernetes.cache.tenant_usage import TenantUsage
from gpupool.kubernetes.resources.pod import Pod
from gpupool.kubernetes.resources.pod_constraints import NOTHING
from gpupool.model.reservation import Reservation
from gpupool.scheduling import ExpectedDemand, Snapshot


class SnapshotBuilder:
    """Keeps the columns of cards current and copies them into snapshots.

    What is known about volumes and foreign pods can change for all nodes at once. The builder then
    evaluates waiting pods anew before the next snapshot.
    """

    def __init__(
        self,
        state: ClusterState,
        gang_seats: GangSeats,
        tenant_usage: TenantUsage,
        settle_pod: Callable[[str], None],
    ) -> None:
        """`settle_pod` takes the uid of a pod whose rule may have changed."""
        self._state = state
        self._gang_seats = gang_seats
        self._tenant_usage = tenant_usage
        self._settle_pod = settle_pod
        self.columns = CardColumns(
            state.hosts,
            state.ledgers,
            state.pods,
            state.read_node,
            state.queue.marks,
            state.queue.drop_unused_marks,
        )
        self.promises = PromisedStarts()
        #: Version of the predicates by which waiting pods were evaluated last.
        self._evaluated_version = 0
        self._knew_foreign_pods = False
        #: Whether nodes carry labels that were computed from older predicates.
        self._are_labels_outdated = False

    def refresh_columns(self) -> None:
        """Apply all noted changes to the columns."""
        self.evaluate_waiting_pods()
        self.columns.refresh_columns()

    def build_snapshot(
        self,
        generation: int,
        policy: str,
        now_ns: int,
        excluded_gangs: Collection[str],
        reservations: tuple[Reservation, ...],
        read_beneficiaries: Callable[[], tuple[str, ...]],
        read_demand: Callable[[int], ExpectedDemand],
    ) -> Snapshot:
        """A frozen copy of the cluster for one scheduling cycle; evaluate waiting pods before.

        Args:
            now_ns: wall clock, in nanoseconds since the epoch.
            excluded_gangs: gangs that are left out.
            read_beneficiaries: claims for which pods were evicted, in their order.
            read_demand: expected demand for a number of cards.
        """
        state = self._state
        present = state.members.present_without(self._gang_seats.surplus_seats())
        waiting = state.queue.waiting_classes(
            present, self._gang_seats.can_take, state.members.begun_gangs
        )
        if excluded_gangs:
            included = []
            for one in waiting:
                if one.gang is None or one.gang.id not in excluded_gangs:
                    included.append(one)
            waiting = tuple(included)
        cards = self.columns.copy_columns()
        previous_starts = self.promises.renumber_cards(cards)
        # The scheduler looks up the tenant of each of them.
        named = {entry.tenant for entry in waiting}
        named.update(one.tenant for one in reservations)
        named.update(key.tenant for key in previous_starts)
        tenants = self._tenant_usage.tenant_views(named, cards, now_ns)
        return Snapshot(
            generation,
            cards,
            tenants,
            waiting,
            policy,
            self.columns.running.all_jobs(),
            reservations,
            expected=read_demand(len(cards.uuids)),
            previous_starts=previous_starts,
            cohorts=self._tenant_usage.tree.cohorts,
            beneficiaries=read_beneficiaries(),
        )

    def relabel_nodes(self, pod: Pod) -> None:
        """Have nodes labelled anew if the pod depends on predicates that have changed."""
        if self._are_labels_outdated and pod.needs is not NOTHING:
            self.columns.invalidate_layout()
            self._are_labels_outdated = False

    def evaluate_waiting_pods(self) -> None:
        """Evaluate waiting pods anew where volumes or foreign pods have changed."""
        state = self._state
        predicates = state.predicates
        if self._evaluated_version == predicates.version:
            return
        knew_foreign_pods = self._knew_foreign_pods
        self._knew_foreign_pods = predicates.around.known
        # Our own pods are noted as located pods only while foreign ones are known: the first time
        # they are all noted again.
        if self._knew_foreign_pods and not knew_foreign_pods:
            for uid, node in state.node_by_pod.items():
                predicates.note_pod(uid, state.pods.get(uid), node)
        self._are_labels_outdated = True
        self._evaluated_version = predicates.version
        for pod in predicates.affected_pods(self._list_waiting_pods()):
            self._settle_pod(pod.uid)
            self.relabel_nodes(pod)

    def _list_waiting_pods(self) -> Iterable[Pod]:
        state = self._state
        return (state.pods[uid] for uid in (*state.unplaceable, *state.queue.pod_uids()))
