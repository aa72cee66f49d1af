"""What gpupool installs in a cluster: accounts, rights, CRDs and admission policies."""
