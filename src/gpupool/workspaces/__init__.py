"""Ways into running jobs: streams of bytes to their ports, sockets and programs, which agents open
on request, and the origin on which browsers see the pages that jobs serve.

The agent's half is `agent.relay`. Must not know what a notebook is. Decision 0103.
"""
