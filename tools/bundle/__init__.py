"""Parts of `tools/make_bundle.py`: the archive for machines without a network.

`locked_wheels` chooses wheels from uv.lock, `inventory` writes the SBOM and the list of licences,
`archive` sums, signs and packs. Standard library, `packaging` and `cyclonedx` only; imports nothing
of gpupool. docs/decisions/0112-one-archive-for-machines-without-a-network.md.
"""
