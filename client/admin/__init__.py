"""Administration of a cluster, one module a subject; `admin.Admin` has them all."""
