"""Whether printed intervals keep their promise: logs, tests and histories simulated with known truth, one file each."""
