"""Tasks of tests that workers can import."""
