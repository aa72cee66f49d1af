"""Which nodes a pod may run on by kube-scheduler's rules: affinity, ports, volumes, spreading.
Pure."""
