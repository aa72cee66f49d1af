"""Undoes what was prepared for a container whose entry is gone."""

from __future__ import annotations

import logging

from gpupool.base.errors import GpupoolError
from gpupool.kubernetes.metering.gpu_time import GpuTimeRecord, Key
from gpupool.kubernetes.node.prepare import EntryPreparer

log = logging.getLogger(__name__)


def undo_preparation(
    preparing: EntryPreparer, spending: GpuTimeRecord, key: Key, generation: int
) -> bool:
    """Store the container's GPU time and undo its preparation; idempotent. Blocks.

    A failure is logged and not raised: a program may have a partition open for long, and the disk
    may be full. The agent would end, and no container of the node could start.

    Returns:
        False if it has to be tried again.
    """
    try:
        spending.close_entry(key, generation)
        preparing.unprepare(*key)
    except (GpupoolError, OSError) as error:
        log.warning(
            "container %s of pod %s has its cards until the next try: %s", key[1], key[0], error
        )
        return False
    return True
