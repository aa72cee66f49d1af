"""The only shapes that cross the network. Field names carry their units; instants are ledger or
wall nanoseconds."""
