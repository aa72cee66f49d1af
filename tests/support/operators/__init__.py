"""Controllers that others write, built from their own modules and run on the tests' cluster: LWS,
MPI, Ray."""
