"""What the benchmarks of the data pipeline measure, one topic a module."""
