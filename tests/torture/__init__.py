"""Random sequences of what users and machines do to a local cluster, see `run`."""
