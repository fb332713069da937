"""The commands that the lab adds to `skyband`; what they call loads when it is called."""
