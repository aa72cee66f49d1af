"""MPS: several programs of one owner run on a card at the same time, through one server process.

It is for jobs of one tenant and one account. It is never a border between tenants: all clients of a
server share its fault domain, and the owner can change the limits of its own daemon.
"""
