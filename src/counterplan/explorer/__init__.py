"""The explorer: a run of counterplan as a web page, served from its folder."""
