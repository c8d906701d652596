"""What a process of Holdfast stands on: errors, checked arguments, foreign code, the console."""
