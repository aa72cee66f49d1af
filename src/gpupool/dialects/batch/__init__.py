"""Job scripts of Slurm, LSF and dstack as submissions."""
