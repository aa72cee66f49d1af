"""Seats that ledgers keep for gang members or successors: which pod takes which, and which seats
are not needed."""

from __future__ import annotations

from gpupool.kubernetes.cache.cluster_state import ClusterState
from gpupool.kubernetes.resources import gang as gangs
from gpupool.kubernetes.resources.gpu_node import Entry, GpuNode
from gpupool.kubernetes.resources.node import with_ledger_mode
from gpupool.kubernetes.resources.pod import Pod
from gpupool.model.claim import Shape
from gpupool.scheduling import is_model_match


class GangSeats:
    """Questions about kept seats, answered from the cluster's state. Changes nothing."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state

    def list_partial_gangs(self) -> list[str]:
        """Gangs with a seat kept for a future member, or with some members placed and others
        waiting."""
        members = self._state.members
        waiting = []
        for name in self._state.queue.gang_names():
            if name in members:
                waiting.append(name)
        return list(dict.fromkeys((*members.gangs_with_kept_seats(), *waiting)))

    def match_seats(self) -> dict[str, Pod]:
        """By uid of a kept seat, the waiting pod that takes it now."""
        state = self._state
        matches: dict[str, Pod] = {}
        for name in self._gangs_with_kept_seats():
            entered = state.members.present_members(name).entered
            seatless = []
            for pod in state.queue.gang_pods(name):
                if pod.uid not in entered:
                    seatless.append(pod)
            seats = gangs.kept_seats(entered)
            matches |= gangs.assign_kept_seats(seats, seatless, self.can_take)
        for uid, successor in state.handover.map_successors().items():
            matches[uid] = state.pods[successor]
        return matches

    def surplus_seats(self) -> frozenset[str]:
        """Kept seats that no waiting member can take, of gangs that are complete without them."""
        surplus: set[str] = set()
        for name in self._gangs_with_kept_seats():
            waiting = self._state.queue.gang_pods(name)
            present = self._state.members.present_members(name)
            surplus.update(
                gangs.surplus_seats(waiting, present.entered, present.over, self.can_take)
            )
        return frozenset(surplus)

    def can_take(self, pod: Pod, seat: Entry) -> bool:
        """Whether the pod may run on the seat's node, and names no other cards than the seat's."""
        state = self._state
        name = state.entry_index.node_of(seat.uid)
        rule = state.predicates.rule_of(pod)
        if name not in state.hosts or name not in state.ledgers:
            return False
        if not _has_wanted_cards(pod.shape(0), seat, state.ledgers[name]):
            return False
        host = with_ledger_mode(state.hosts[name], state.ledgers[name])
        usage = state.measure_usage(name, with_rejections=False)
        return state.predicates.admits(rule, host, usage)

    def _gangs_with_kept_seats(self) -> list[str]:
        """Those of which a member waits."""
        kept = self._state.members.gangs_with_kept_seats()
        names = []
        for name in kept:
            if self._state.queue.has_gang(name):
                names.append(name)
        return names


def _has_wanted_cards(shape: Shape, seat: Entry, node: GpuNode) -> bool:
    """Whether the seat's cards are of the model and vendor, and the very cards, that are wanted."""
    wanted = shape.selector
    excluded = "|".join(wanted.not_models)
    cards = {card.uuid: card for card in node.cards}
    for uuid in (one.device for one in seat.seats):
        card = cards.get(uuid)
        # A card that its node does not report is freed by `gang_timeouts`.
        if card is None or wanted.vendor not in (None, card.vendor):
            return False
        if shape.model is not None and not is_model_match(shape.model, card.model):
            return False
        if excluded and is_model_match(excluded, card.model):
            return False
        if uuid in wanted.not_uuids or (wanted.uuids and uuid not in wanted.uuids):
            return False
    return True
