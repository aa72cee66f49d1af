"""What gpupool reads and writes of Kubernetes objects: pods, nodes, and its own kinds. Pure."""
