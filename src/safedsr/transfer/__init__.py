"""Many tasks in a row in one environment: the benchmark of SFT-CoP with agents of this package."""
