"""Planes of tenants: the networks beside each other that a tenant demands on its nodes (Ethernet, RoCE, InfiniBand,
storage, management). Compilers and the evaluation are pure; the service writes demands and evidence; placement asks
which nodes are ready for a tenant."""
