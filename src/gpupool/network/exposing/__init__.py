"""Exposures: a job's port published in one call, by a load balancer and, where an admin opened ports
and the network has a gateway, a port of the machine. An exposure ends with its job."""
