"""``python -m numstax`` is the console script ``numstax``."""

from numstax.cli import main

if __name__ == "__main__":
    main()
