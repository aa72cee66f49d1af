"""The scores of a shape in arrays that the native library writes and searches."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpupool.scheduling.filtering.native_library import NativeLibrary
from gpupool.scheduling.filtering.native_structs import NativeStructs, ScoresStruct
from gpupool.scheduling.snapshot.columns import Ints

#: Nodes of which the highest score is kept together.
BLOCK = 256
#: Marks a block whose highest score must be looked for again; no score reaches it.
UNKNOWN = int(np.iinfo(np.int64).max)


class NativeScores(NativeStructs):
    """The arrays that `NativeStreamFill.update_scores` writes.

    Args:
        kernel: The library.
        by_rank: Scores, ordered by the rank of the node.
        rank: The rank of each node.
        roomy: Mask of the nodes that take the whole claim.
    """

    def __init__(
        self, kernel: NativeLibrary, by_rank: Ints, rank: Ints, roomy: npt.NDArray[np.bool_]
    ) -> None:
        super().__init__()
        self._best = kernel.calls.scores_best
        nodes = len(by_rank)
        blocks = -(-len(by_rank) // BLOCK)
        self._highest = np.full(blocks, UNKNOWN, dtype=np.int64)
        columns = {"by_rank": by_rank, "rank": rank, "roomy": roomy, "highest": self._highest}
        self.at = self.build_struct(ScoresStruct, nodes=nodes, **columns)

    def forget_highest(self) -> None:
        """Discard the cached maxima, after another writer than `update_scores` changed scores."""
        self._highest[:] = UNKNOWN

    def find_best(self) -> int:
        """Return the lowest rank with the highest score, or -1 if no node is feasible."""
        found: int = self._best(self.at)
        return found
