"""The files of a running pool: a database that is removed or replaced ends the server, its contents saved. A flush
that fails has the server begin anew: it may be a moment's failure, and no later flush of this process is believed.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from pathlib import Path

from gpupool.base.errors import GpupoolError, StoreReplaced
from gpupool.base.silence import busy
from gpupool.base.supervised import register
from gpupool.host.watching import names_changed
from gpupool.store.database import Store

logger = logging.getLogger("gpupool")

LOOK_SECONDS = 600.0
RESCUED = "gpupool.db.rescued"


async def guard_files(store: Store, root: Path, stop: asyncio.Event) -> None:
    """Compare the database's files with those that were opened whenever a name in the state directory changes.

    A database that is replaced sets `stop`, after what this process still has open of it was saved beside its place.
    """
    loop = asyncio.get_running_loop()

    def lost(error: GpupoolError) -> None:
        logger.critical("%s", error)
        if isinstance(error, StoreReplaced):
            _rescue(store, root / RESCUED)
            loop.call_soon_threadsafe(stop.set)
        else:
            register.end_process("store-flush")

    store.durability.on_lost = lost
    while not stop.is_set():
        with busy():
            await asyncio.to_thread(store.durability.look)
        try:
            await names_changed(root, LOOK_SECONDS)
        except FileNotFoundError:
            logger.critical("%s was removed under the pool", root)
            await asyncio.to_thread(store.durability.look)
            return


def _rescue(store: Store, path: Path) -> None:
    """The removed files live on for as long as they are open: save them."""
    try:
        store.copy_to(path)
    except (OSError, sqlite3.Error) as error:
        logger.critical("what the database held could not be saved as %s: %s", path, error)
        return
    logger.critical("what the database held until now is saved as %s", path)
