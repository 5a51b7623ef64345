"""What to do now: value bounds, tree search and classical policies under an exogenous future."""
