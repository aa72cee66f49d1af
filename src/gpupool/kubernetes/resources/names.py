"""Every name that gpupool uses in a cluster, also in charts and policies.

What people type is `dialects.kubernetes.native`'s.
"""

from __future__ import annotations

from typing import Final

from gpupool.dialects.kubernetes import native

GROUP: Final = native.DOMAIN
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

#: The scheduling gate of a pod that has no cards yet.
GATE: Final = f"{GROUP}/placement"
#: `schedulerName` of a pod without a gate, which the controller binds once it has its cards.
DIRECT: Final = f"{GROUP}/direct"
#: Label of every pod that our admission has mutated; the controller watches these alone.
MANAGED: Final = f"{GROUP}/managed"
GPU_MILLI: Final = native.MILLI
MEMORY: Final = native.MEMORY
#: One per container that has cards: what the device plugin hands out. Only in the normal form.
SLOT: Final = native.SLOT
TOTALS: Final = (SLOT, GPU_MILLI, MEMORY)

CLAIM: Final = native.CLAIM
TYPED: Final = native.TYPED
#: Label of a pod that may use what this Reservation of its tenant holds.
RESERVATION: Final = f"{GROUP}/reservation"
#: Annotation: the cards, for people to read. No program relies on it.
PLACED: Final = f"{GROUP}/placed"
#: Annotation of a pod whose eviction order was withdrawn: the ledger's version then. The new
#: version of the pod makes evictions in flight void.
STAYS: Final = f"{GROUP}/stays"
#: Annotation of a gated pod whose seat is withdrawn: `GENERATION.VERSION`, its ledger's generation
#: without the seat and the pod's version before. A controller releases the pod only if it knows the
#: ledger from that generation on.
WITHDRAWN: Final = f"{GROUP}/withdrawn"
#: Annotation of a GpuNode: the instant, in nanoseconds, up to which closed intervals are in the
#: books. The meter alone writes it.
METERED: Final = f"{GROUP}/metered"
#: Annotation of a GpuNode that may be deleted while it holds cards; operators write it.
GIVEN_UP: Final = f"{GROUP}/given-up"
#: Label of a ConfigMap with closed intervals that the meter has not reported yet.
JOURNAL: Final = f"{GROUP}/journal"
#: Prefix of labels that no Node has: in a snapshot they mark the nodes that a class of pods may use.
ELIGIBLE: Final = f"{GROUP}/eligible-"

CONDITION: Final = "PodScheduled"
#: Phases of a pod that does not run any more.
ENDED: Final = ("Succeeded", "Failed")
FIELD_MANAGER: Final = "gpupool"
#: Label of a Node whose cards gpupool hands out; other device plugins' DaemonSets avoid it.
MODE: Final = f"{GROUP}/mode"
#: Annotation of such a Node: the labels that adopting changed, with their values before, as JSON.
BEFORE: Final = f"{GROUP}/before"
