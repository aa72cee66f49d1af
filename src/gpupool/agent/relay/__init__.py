"""Streams into the jobs of an agent: to ports, sockets and new programs of theirs, opened when the
server asks and brought to it over connections of the agent's own. The server's half is
`gpupool.workspaces`. Decision 0103.
"""
