"""What people call: a file for each function of `holdfast`, and what it returns."""
