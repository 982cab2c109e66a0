"""Many runs: a sweep as data, one unit of work ("finish this run folder"), and executors that do it."""
