"""The watchdog of a machine that serves gateways as one of a pair: a process of its own, which survives the agent,
watches uplink, switch and peer, and moves the gateways. The agent starts it and reads its state from a file."""
