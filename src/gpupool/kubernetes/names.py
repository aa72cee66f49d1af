"""Every name that gpupool uses in a cluster; what people type is `dialects.native`'s. Charts and policies use these."""

from __future__ import annotations

from typing import Final

from gpupool.dialects import native

GROUP: Final = native.DOMAIN
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

GATE: Final = f"{GROUP}/placement"
"""The scheduling gate of a pod that has no cards yet."""
DIRECT: Final = f"{GROUP}/direct"
"""As `schedulerName`: a pod that has no gate, and that the controller binds when it has its cards."""
MANAGED: Final = f"{GROUP}/managed"
"""Label of every pod that went through our admission; the controller watches these alone."""
GPU_MILLI: Final = native.MILLI
MEMORY: Final = native.MEMORY
SLOT: Final = native.SLOT
"""One per container that has cards: what the device plugin hands out. Only in the normal form."""
TOTALS: Final = (SLOT, GPU_MILLI, MEMORY)

CLAIM: Final = native.CLAIM
TYPED: Final = native.TYPED
RESERVATION: Final = f"{GROUP}/reservation"
"""Label of a pod that may use what this Reservation of its tenant holds."""
PLACED: Final = f"{GROUP}/placed"
"""Annotation: the cards, for people to read. Nobody believes it."""
STAYS: Final = f"{GROUP}/stays"
"""Annotation of a pod that was to leave and need not: the ledger's version then. It makes evictions under way void."""
WITHDRAWN: Final = f"{GROUP}/withdrawn"
"""Annotation of a gated pod whose seat is taken from it: `GENERATION.VERSION`, its ledger's generation without the seat
and the pod's version before. Who lets the pod go has to know its ledger from that generation on."""
METERED: Final = f"{GROUP}/metered"
"""Annotation of a GpuNode: up to which instant (ns) what ended there is in the books. The meter alone writes it."""
GIVEN_UP: Final = f"{GROUP}/given-up"
"""Annotation of a GpuNode: it may be deleted while it holds cards; people write it."""
JOURNAL: Final = f"{GROUP}/journal"
"""Label of a ConfigMap that keeps what ended until the meter has told it: on which node."""
ELIGIBLE: Final = f"{GROUP}/eligible-"
"""Of labels that no Node has: a snapshot says by them which nodes a class of pods may go to."""

CONDITION: Final = "PodScheduled"
ENDED: Final = ("Succeeded", "Failed")
"""Phases of a pod that does not run any more."""
FIELD_MANAGER: Final = "gpupool"
MODE: Final = f"{GROUP}/mode"
"""Label of a Node that gpupool hands out cards of, so that DaemonSets of others can stay away from it."""
BEFORE: Final = f"{GROUP}/before"
"""Annotation of such a Node: its labels that adopting changed, as they were, as JSON."""
