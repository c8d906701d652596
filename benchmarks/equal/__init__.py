"""What Holdfast rebuilds of other libraries, compared with the original, over as many models as these have."""
