"""The version of Holdfast, stated once: the build reads it here, and a checkout that is not installed has it too."""

VERSION = "0.1.0"
