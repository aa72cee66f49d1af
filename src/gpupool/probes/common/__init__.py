"""Shares what the probes of several makers need: sysfs, graphics clients, sensors, tools."""
