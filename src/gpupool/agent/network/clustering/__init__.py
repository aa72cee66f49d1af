"""The databases of OVN in a cluster of several machines: the server of this machine, which creates
the cluster or joins it, the watch over leaders, and the controller's way to the servers."""
