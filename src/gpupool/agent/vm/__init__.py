"""The node's part of virtual machines: makes their files, gives the supervisor QEMU's command,
presses their power button, and removes what no VM needs. Must not know the server."""
