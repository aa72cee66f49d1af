"""Usage accounting of a cluster: reports held intervals and GPU time to a gpupool server."""
