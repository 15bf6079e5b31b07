"""Tables with versions that results are published to."""

from sempre.files.targets.target import TableTarget, publishable, target_of

__all__ = ["TableTarget", "publishable", "target_of"]
