"""The command of services: replicas of one job behind one address."""
