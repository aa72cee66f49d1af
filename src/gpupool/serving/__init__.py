"""Services: replicas of one job behind one address, as many as the load needs. `scaling` and
`replicas` decide and are pure; `controller` applies what they decide; `door` is the address.
Replicas are ordinary jobs of the service's owner, so a service gives no rights."""
