"""`kubectl gpupool`: the commands for the pool of a cluster, one file each, listed in `COMMANDS`.

It reads and writes through the API server alone, with the rights of the user. Tables, help,
refusals and exit codes are those of the command line (`gpupool.cli`).
"""

from __future__ import annotations

from typing import Final

COMMANDS: Final = {
    "doctor": "is everything here that the pool needs, and who else hands out cards",
    "map": "nodes, their cards, and who has which share",
    "top": "who holds most",
    "why": "why a pod waits, or what it has",
    "quota": "what tenants may hold, hold, and wait for",
    "adopt": "let gpupool hand out the cards of a node",
    "release": "only look at a node again",
    "uninstall": "take gpupool out of the cluster, with nothing left waiting at its gate",
}
