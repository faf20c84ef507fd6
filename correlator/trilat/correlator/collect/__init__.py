"""Files of services, from hosts that may be anything, into the directory of a run."""
