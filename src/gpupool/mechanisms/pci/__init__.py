"""PCI functions of a node: what the kernel says of them, and the changes that give one to a VM.

Every path is below a `root` that the caller names, so a recorded tree serves as well as the host.
Reading never wakes a card. Changes are operations: small, idempotent, checked by reading back, and
run in a process of their own, since an unbind can hang in the kernel.
"""
