"""Runs a pool in one process: the server and the embedded agent, for `gpupool up`.

The only package that imports both. Each is an entry point of its own, and they speak to each other
as if they were on different machines.
"""
