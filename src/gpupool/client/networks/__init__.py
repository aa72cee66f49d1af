"""Networks of tenants for programs that use the SDK: what `gpupool network` does.

`Pool.networks` is the way in. It speaks the REST API and knows no rule of the pool.
"""
