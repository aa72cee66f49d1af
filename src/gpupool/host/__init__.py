"""One pool in one process: the server and the embedded agent, put together for `gpupool up`.

The only room that imports both; everything it starts is an entry point of its own and
they speak to each other as if they were far apart.
"""
