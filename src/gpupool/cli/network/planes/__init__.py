"""The verbs of `gpupool network` for planes of tenants: demands, inventory, files and evidence."""
