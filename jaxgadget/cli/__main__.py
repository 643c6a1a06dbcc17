"""`python -m jaxgadget.cli`."""

from jaxgadget.cli import main

if __name__ == "__main__":
    main()
