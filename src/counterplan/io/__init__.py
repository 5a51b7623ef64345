"""Episode tables, model files and results, in and out; mistakes in a file are named by place."""
