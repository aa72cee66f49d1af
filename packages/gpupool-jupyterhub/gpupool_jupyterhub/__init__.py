"""Servers of JupyterHub as jobs of a gpupool pool. Speaks the public REST API through
`gpupool.client` alone. Decision 0114.
"""
