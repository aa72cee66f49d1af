"""How the services of a network's parts find the network that a caller names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from gpupool.model.tenant import Principal

#: Returns the row of a network in the caller's scope, by name or id and tenant; raises
#: UnknownNetwork.
FindNetwork = Callable[[sa.Connection, Principal, str, str | None], Any]

#: Counts the jobs that are in a network or wait for it, by its row id.
CountJobs = Callable[[sa.Connection, int], int]
