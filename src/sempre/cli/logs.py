"""`SEMPRE_LOG`: what the loggers of the package say, on standard error, as text or as a JSON object per line."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

from sempre.cli.souffle_options import UsageError

VARIABLE = "SEMPRE_LOG"
# What every record has: fields that somebody added are the others.
_USUAL = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {"message", "asctime", "taskName"}


def start_logging(wanted: str) -> None:
    """Show what is logged, as `text` or `json`."""
    formatters = {"text": logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"), "json": JsonLines()}
    if wanted not in formatters:
        raise UsageError(f"{VARIABLE} is `{wanted}`\nhint: use text or json")
    handler = logging.StreamHandler()
    handler.setFormatter(formatters[wanted])
    package = logging.getLogger("sempre")
    package.handlers = [handler]
    package.setLevel(logging.INFO)


class JsonLines(logging.Formatter):
    """A record as one line: when, how severe, which logger, what it says, and its fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        told |= {name: value for name, value in vars(record).items() if name not in _USUAL}
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told, default=str, ensure_ascii=False)
