"""MLPerf's own load generator in front of a prepared case: its settings, queries, logs and verdict."""
