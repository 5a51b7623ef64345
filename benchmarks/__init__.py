"""Speed and memory, each compared with a baseline of the same run. Start at README.md."""
