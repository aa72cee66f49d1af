"""Services, for programs: replicas of one job behind one address."""
