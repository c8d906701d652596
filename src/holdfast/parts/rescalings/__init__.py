"""How searches measure distances by the crowd around both sides; one file per part."""
