"""Flow logs: which packets of a network its security groups took and refused. The compiler is pure;
the service writes what tenants want logged, and keeps the records that agents report."""
