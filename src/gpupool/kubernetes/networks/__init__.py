"""Networks of Tenants on a cluster with Kube-OVN: judges what Tenants want beside each other, compiles
it to Kube-OVN's objects, and keeps these as they should be."""
