"""Objects that the parts of the cluster cache share: nodes, ledgers, pods and where each pod is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from gpupool.kubernetes.cache.entry_index import EntryIndex
from gpupool.kubernetes.cache.gang_members import GangMembers
from gpupool.kubernetes.cache.kubelet_rejections import KubeletRejections
from gpupool.kubernetes.cache.pending_pods import PodQueue
from gpupool.kubernetes.cache.seat_handover import SeatHandover
from gpupool.kubernetes.predicates.predicates import NodePredicates, sum_usage
from gpupool.kubernetes.resources.gpu_node import GpuNode
from gpupool.kubernetes.resources.node import NodeFacts, NodeState, NodeUsage, with_ledger_mode
from gpupool.kubernetes.resources.pod import Pod


@dataclass
class ClusterState:
    """The cluster as the API server last reported it.

    Attributes:
        seconds: a monotonic clock, in seconds.
        unplaceable: by uid of a pod that no node can take yet, the reason.
        pods_by_node: by node, uids of the managed pods that use it.
        node_by_pod: by uid, the node that the pod uses.
        unwritable: nodes whose ledger the API server refuses to write.
    """

    seconds: Callable[[], float]
    hosts: dict[str, NodeFacts] = field(default_factory=dict)
    ledgers: dict[str, GpuNode] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    entry_index: EntryIndex = field(default_factory=EntryIndex)
    unplaceable: dict[str, str] = field(default_factory=dict)
    pods_by_node: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    node_by_pod: dict[str, str] = field(default_factory=dict)
    unwritable: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.predicates = NodePredicates(self.hosts)
        self.queue = PodQueue(self.predicates.rule_of)
        self.handover = SeatHandover(self.seconds, self.hosts)
        self.rejections = KubeletRejections(self.seconds)
        self.members = GangMembers(self.pods, self.handover)

    def measure_usage(self, name: str, *, with_rejections: bool) -> NodeUsage:
        """What pods request of the node, foreign pods included.

        Args:
            with_rejections: also count pods that the node's kubelet rejected a short while ago.
        """
        foreign = self.ledgers[name].others
        pods = [self.pods[uid] for uid in self.pods_by_node[name]]
        if with_rejections:
            pods += self.rejections.counted_pods(name, foreign)
        return sum_usage(foreign, pods)

    def read_node(self, name: str) -> NodeState:
        """The node as it is now, with a label for each waiting rule that admits it."""
        ledger = self.ledgers[name]
        host = with_ledger_mode(self.hosts[name], ledger)
        if name in self.unwritable:
            host = replace(host, ready=False)
        usage = self.measure_usage(name, with_rejections=True)
        labels: dict[str, str] = {}
        for rule, label in self.queue.marks.items():
            if self.predicates.admits(rule, host, usage):
                labels[label] = ""
        return NodeState(host, ledger, usage, labels)
