"""Bodies and answers about users that leave: handovers of what they own, and the policies for it."""
