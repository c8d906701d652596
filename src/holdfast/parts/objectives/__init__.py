"""What an adversary maximises, as functions of representations."""
