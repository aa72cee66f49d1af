"""The pair of machines that serves the gateways of all networks: one is active, one stands by. A watchdog on each of
them moves the gateways; the priorities of OVN's chassis group, which the watchdogs write, say which one is active."""
