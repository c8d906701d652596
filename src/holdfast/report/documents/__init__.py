"""What is shown of each thing that Holdfast makes: one file for each, whose `document` the media render."""
