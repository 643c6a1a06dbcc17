"""`python -m jaxgadget` is `jaxgadget`."""

from jaxgadget.cli import main

if __name__ == "__main__":
    main()
