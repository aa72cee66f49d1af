"""Translates the words of other systems into a claim, for admission and for `gpupool import`.

One file per system, pure. The entry points are functions of plain mappings:

* `reading.understand_pod(pod)`: the normal form of a pod (`contract.PodClaim`), or an error of
  `base.errors`.
* `shapes.translate_shape(container claim)`: what the scheduler reads, and what it cannot say.
* `writing.write_typed`, `writing.write_admitted`, `writing.admission_patch`: the pod as admission
  reads it, as it stores it, as a patch; `normal.read_admitted` reads the claim back from a stored
  pod and checks it against the totals.
* `documents.understand_document`, `documents.rewrite_document`: whole manifests of any kind.
* `slurm.understand_script`, `lsf.understand_script`: job scripts, and `script.submit_line` for what
  to type instead.

A new system is a file with a `DIALECT` (its words, how they are read) and its name in `registry`.
"""
