"""The verbs of `gpupool network`: a module for each kind of object in a network."""
