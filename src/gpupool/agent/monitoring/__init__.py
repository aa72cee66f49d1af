"""What cards and jobs do: samples of use, fence counters, and news of health."""
