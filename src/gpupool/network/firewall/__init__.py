"""The firewall at the boundary of the pool: rules of an admin for what gateways pass, in both directions. The service
writes them; the agent of the machine loads all of them at once, and open connections obey them too."""
