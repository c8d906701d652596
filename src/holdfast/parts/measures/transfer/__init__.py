"""What an outsider with another encoder can do: attacks made there, judged here."""
