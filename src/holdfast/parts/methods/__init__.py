"""Pre-training methods: what an encoder learns from; one file each."""
