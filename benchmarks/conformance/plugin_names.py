"""Names of the environment variables by which the runner tells the plugin what to do."""

#: File that a JSON line is appended to when a test starts (`start`) and when it ends (`outcome`).
RESULTS = "CONFORMANCE_RESULTS"
#: `k/n`: keep the test ids whose crc32 modulo n is k.
SAMPLE = "CONFORMANCE_SAMPLE"
#: `k/n` again, applied to what the sample keeps: how a long file is divided among processes.
PART = "CONFORMANCE_PART"
#: `1`: keep one parametrisation of each test function.
ONE_PER_CLASS = "CONFORMANCE_ONE_PER_CLASS"
#: File with the ids of tests that are not to be run (again), one a line.
DONE = "CONFORMANCE_DONE"
