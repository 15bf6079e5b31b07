"""The fault campaign: `python -m tests.faults [--minutes M] [--seed N] [--only KIND]...`, by `make test-faults`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.disks import FAST
from tests.faults.campaign import KINDS, campaign


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Break stores for a while.")
    parser.add_argument("--minutes", type=float, default=15.0, help="how long, all kinds together (default: 15)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="what is random follows from it")
    parser.add_argument("--only", action="append", choices=sorted(KINDS), help="this kind of fault; may be repeated")
    parser.add_argument("--folder", default=FAST, help="where stores are made (default: a file system in memory)")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="sempre-faults-", dir=options.folder) as folder:
        wrong = campaign(Path(folder), options.seed, options.minutes * 60, options.only or list(KINDS), print)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
