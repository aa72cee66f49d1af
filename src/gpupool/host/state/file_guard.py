"""Guards the files of a running pool.

A database that is removed or replaced ends the server after its contents were saved. A failed flush
makes the server start again: the failure may be temporary, but no later flush of this process can
be trusted.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from pathlib import Path

from gpupool.base.errors import GpupoolError, ReplacedStore
from gpupool.base.silence import mark_busy
from gpupool.base.supervision import register
from gpupool.host.state.file_watch import await_name_change
from gpupool.store.database import Store

logger = logging.getLogger("gpupool")

#: Seconds between two checks without a change of names.
LOOK_SECONDS = 600.0
#: File with the contents of a lost database, in the state directory.
RESCUED = "gpupool.db.rescued"


async def guard_files(store: Store, root: Path, stop: asyncio.Event) -> None:
    """Compare the database's files with the open ones whenever a name in the directory changes.

    A replaced database sets `stop`, after its contents were saved beside its place.
    """
    loop = asyncio.get_running_loop()

    def handle_loss(error: GpupoolError) -> None:
        logger.critical("%s", error)
        if isinstance(error, ReplacedStore):
            _save_contents(store, root / RESCUED)
            loop.call_soon_threadsafe(stop.set)
        else:
            register.end_process("store-flush")

    store.durability.on_lost = handle_loss
    while not stop.is_set():
        with mark_busy():
            await asyncio.to_thread(store.durability.look)
        try:
            await await_name_change(root, LOOK_SECONDS)
        except FileNotFoundError:
            logger.critical("%s was removed under the pool", root)
            await asyncio.to_thread(store.durability.look)
            return


def _save_contents(store: Store, path: Path) -> None:
    # Removed files exist as long as they are open, so their contents can still be copied.
    try:
        store.copy_to(path)
    except (OSError, sqlite3.Error) as error:
        logger.critical("what the database held could not be saved as %s: %s", path, error)
        return
    logger.critical("what the database held until now is saved as %s", path)
