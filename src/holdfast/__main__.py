"""`python -m holdfast`, which torchrun needs."""

from holdfast.cli import main

if __name__ == "__main__":
    main()
