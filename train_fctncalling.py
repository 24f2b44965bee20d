"""Train a policy to call functions over several turns; `--help` lists the settings."""

from fctncalling.cli.train import main

if __name__ == "__main__":
    raise SystemExit(main())
