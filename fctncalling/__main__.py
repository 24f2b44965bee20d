"""`python -m fctncalling`: the commands of the package."""

from fctncalling.cli.command import main

if __name__ == "__main__":
    raise SystemExit(main())
