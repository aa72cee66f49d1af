"""The server's shell: the app, who is asking, how errors read, how it listens, how its database grows.

Imports every room and is imported by none of them; `gpupool.host` starts it.
"""
