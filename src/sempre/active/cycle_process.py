"""A worker for active rules as a process of its own: `python -m sempre.active.cycle_process [HOST]`."""

from __future__ import annotations

import sys
from functools import partial

from sempre.active.cycle_worker import CycleWorker
from sempre.kernel import compiled
from sempre.workers.process import main, serve

# What is started where workers are hired.
MODULE = "sempre.active.cycle_process"

if __name__ == "__main__":
    compiled.after_requests()  # cycles have no use for walker and settler
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1", partial(serve, kind=CycleWorker))
