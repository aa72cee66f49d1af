"""Idle jobs and their policies in the SDK; `jobs.Idleness` has them all."""
