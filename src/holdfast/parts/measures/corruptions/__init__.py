"""What corruptions of whole data sets change."""
