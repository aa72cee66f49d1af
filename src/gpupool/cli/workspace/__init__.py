"""Commands that enter running jobs: programs, files, ports, SSH and notebooks."""
