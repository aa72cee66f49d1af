"""Templates: versioned documents that make a job, an array or a gang of a few fields. `values`, `references`,
`sweep`, `rendering` and `document` are pure; `service` keeps versions and checks owners. A job that a
template makes is submitted as every other one, so a template gives no rights."""
