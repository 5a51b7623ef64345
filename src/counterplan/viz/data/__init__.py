"""What each figure shows, in numbers and words: small frozen objects that every renderer draws.

A module for each figure: a dataclass and the function that makes it from results. `figures` draws
it with matplotlib and `interactive` with plotly, so both show the same.
"""
