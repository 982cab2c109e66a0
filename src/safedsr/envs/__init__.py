"""What agents act in: the one Environment type, and the environments that come with the library."""
