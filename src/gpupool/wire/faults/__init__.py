"""Shapes of faults; `incidents` has XIDs as agents report them and incidents as people see them."""
