"""The verbs of `gpupool network` for what tenants may have."""
