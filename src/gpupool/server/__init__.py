"""The server's shell: the app, authentication, errors over HTTP, listeners, and migrations.

Imports every room and is imported by none of them; `gpupool.host` starts it.
"""
