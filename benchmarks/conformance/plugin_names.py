"""Names of the environment variables that configure the plugin."""

#: The file that gets a JSON line when a test starts (`start`) and when it ends (`outcome`).
RESULTS = "CONFORMANCE_RESULTS"
#: `k/n` selects the tests whose id has a crc32 of k modulo n.
SAMPLE = "CONFORMANCE_SAMPLE"
#: `k/n` selects part k of n of the sample: long files are divided among processes.
PART = "CONFORMANCE_PART"
#: `class` or `function` selects one test of each test class or function.
ONE_PER = "CONFORMANCE_ONE_PER"
#: `1` loads every ML Program through a compiled model that this package writes and reads.
COMPILED = "CONFORMANCE_COMPILED"
#: The file with the ids of tests to skip, one per line.
DONE = "CONFORMANCE_DONE"
