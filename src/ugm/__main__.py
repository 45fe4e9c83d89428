"""The command ``ugm``, as ``python -m ugm``."""

from ugm.cli import main

if __name__ == "__main__":
    main()
