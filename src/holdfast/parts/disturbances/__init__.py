"""What befalls images and how they are then represented, one column of the table of measures per file."""
