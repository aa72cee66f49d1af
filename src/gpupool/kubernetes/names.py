"""Every name that gpupool uses in a cluster. Each stands here once; charts, policies and docs are made from these."""

from __future__ import annotations

from typing import Final

GROUP: Final = "gpupool.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

GATE: Final = f"{GROUP}/placement"
"""The scheduling gate of a pod that has no cards yet."""
MANAGED: Final = f"{GROUP}/managed"
"""Label of every pod that went through our admission; the controller watches these alone."""
QUEUE: Final = f"{GROUP}/queue"
"""Label: the tenant's queue."""

GPUS: Final = f"{GROUP}/gpus"
"""Asked per container: cards. In the normal form it is not there any more."""
GPU_MILLI: Final = f"{GROUP}/gpu-milli"
"""Asked: thousandths of each card. In the normal form: of all its cards together."""
MEMORY: Final = f"{GROUP}/memory"
"""Asked: bytes of each card. In the normal form: of all its cards together."""
SLOT: Final = f"{GROUP}/slot"
"""One per container that has cards: what the device plugin hands out. Only in the normal form."""
TOTALS: Final = (SLOT, GPU_MILLI, MEMORY)

SHARING: Final = f"{GROUP}/sharing"
MODEL: Final = f"{GROUP}/model"
TOPOLOGY: Final = f"{GROUP}/topology"
ASKED: Final = f"{GROUP}/asked"
"""Annotation: the words as they were typed, per container."""
CLAIM: Final = f"{GROUP}/claim"
"""Annotation: how they were understood, per container, as JSON. What it says is checked against the totals."""
PLACED: Final = f"{GROUP}/placed"
"""Annotation: the cards, for people to read. Nobody believes it."""
GANG: Final = f"{GROUP}/gang"
"""Annotation or label: the gang's name within the namespace."""
GANG_SIZE: Final = f"{GROUP}/gang-size"
GANG_MINIMUM: Final = f"{GROUP}/gang-minimum"
PREEMPTIBLE: Final = f"{GROUP}/preemptible"

CONDITION: Final = "PodScheduled"
FIELD_MANAGER: Final = "gpupool"
