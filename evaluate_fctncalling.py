"""Evaluation from the command line.

`evaluate_fctncalling.py SUBCOMMAND --help` shows what each part takes.
"""

import sys

from fctncalling.cli.evaluate import main

if __name__ == "__main__":
    sys.exit(main())
