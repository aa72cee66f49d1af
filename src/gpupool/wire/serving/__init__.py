"""Shapes of services: what is asked for, and what is answered of them and their replicas."""
