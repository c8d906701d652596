"""What of Holdfast runs on a GPU, whether it computes there what a CPU computes, how fast, and where it waits."""
