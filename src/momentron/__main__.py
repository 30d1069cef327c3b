"""`python -m momentron` is the command line."""

from momentron.cli import main

if __name__ == "__main__":
    main()
