"""Tables of episodes and scenarios, in and out; mistakes are named by row, column and value."""
