"""Reading and writing files safely: what every layer above shares, whatever the file holds."""
