"""Units, ids, errors, clocks and settings. Standard library only; knows nothing of cards or tenants."""
