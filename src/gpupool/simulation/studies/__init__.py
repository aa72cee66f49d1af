"""Questions to the simulator: policies compared, what-if, and tuning on a pool's history."""
