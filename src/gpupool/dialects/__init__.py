"""Foreign words become our claim: one file per system, pure, used alike by admission and by `gpupool import`.

The doors of the room, all of them functions of plain mappings:

* `reading.understand(pod)`: the normal form of a pod (`contract.PodClaim`), or a refusal of `base.errors`.
* `shapes.shape_of(container claim)`: what the scheduler reads, and what that cannot say.
* `writing.typed`, `writing.admitted`, `writing.admission_patch`: the pod in our words, as admission stores it, as a
  patch; `normal.read_admitted` reads the claim back from a stored pod and checks it against the totals.
* `documents.understand_document`, `documents.rewritten`: whole manifests, whichever object the pods are in.
* `slurm.understand`, `lsf.understand`: job scripts, and `batch.submit_line` for what to type instead.

A new system is a file with a `DIALECT` (its words, how they are read) and its name in `registry`.
"""
