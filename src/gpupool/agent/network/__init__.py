"""Networks on this machine: the engine's daemons, and the attachment of jobs to networks."""
