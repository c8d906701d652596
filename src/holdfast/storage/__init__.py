"""What lies on disk: file systems, run folders, records, documents; torch is not needed to read them."""
