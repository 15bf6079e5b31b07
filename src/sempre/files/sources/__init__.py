"""Where facts come from, and what changed there since they were last read: files, and tables that keep versions."""

from sempre.files.sources.source import FactSource, RowChanges, source_of

__all__ = ["FactSource", "RowChanges", "source_of"]
