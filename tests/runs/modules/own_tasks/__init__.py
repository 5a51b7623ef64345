"""Tasks of a user's own, as the tests of cohort runs use them."""
