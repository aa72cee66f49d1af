"""Virtual machines: a VM is a job whose command is QEMU under the job supervisor.

The agent starts a VM and powers it off, the command line looks at it and resets it; both use the
files and sockets that this package defines. It is the only door to QEMU. It must not know the
server, and nothing in it decides where a VM runs.
"""
