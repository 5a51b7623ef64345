"""Tree search: one loop of select, expand, evaluate and back up, with plugged-in parts."""
