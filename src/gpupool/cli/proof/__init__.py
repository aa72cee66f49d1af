"""Commands that load a share and prove its limits."""
