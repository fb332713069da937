"""HOW FAST, measured: seeded workloads and the suites behind `skyband bench`."""
