"""Files that the session's Java reaches where Python has no client: `viewfs://`, `hdfs://` and any other.

Each file is a call or two of Hadoop's `FileSystem`, by way of a file of this machine where it is large.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sempre.spark.failures import cause_of, reason_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What goes to Java as an array: larger files go by a file of this machine, which is quicker than Py4J's text.
MOST_BYTES = 1 << 16
_KINDS = {"FileNotFoundException": FileNotFoundError, "FileAlreadyExistsException": FileExistsError}
_KINDS |= {"AccessControlException": PermissionError, "PathIsNotEmptyDirectoryException": OSError}


class HadoopFiles:
    """Files of one file system, by the names that clients of `fsspec` have for what is asked of them."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._root = root
        with _told(root):
            settings = spark._jsparkSession.sessionState().newHadoopConf()
            address = jvm.java.net.URI(root)
            # One of our own: those that Hadoop keeps have the settings of whoever came first.
            self._files = jvm.org.apache.hadoop.fs.FileSystem.newInstance(address, settings)
            self._names = jvm.org.apache.hadoop.fs.FileContext.getFileContext(address, settings)
            kind = jvm.java.lang.Class.forName("org.apache.hadoop.fs.Options$Rename")
            self._no_options = jvm.java.lang.reflect.Array.newInstance(kind, 0)  # so that nothing is replaced

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._root}{path}")

    def ls(self, path: str, **_: Any) -> list[str]:
        with _told(path):
            return [str(each.getPath().toUri().getPath()) for each in self._files.listStatus(self._path(path))]

    def info(self, path: str) -> dict[str, Any]:
        with _told(path):
            return _info(self._files.getFileStatus(self._path(path)))

    def find(self, path: str, **_: Any) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        with _told(path):
            waiting = [self._path(path)]
            while waiting:
                for each in self._files.listStatus(waiting.pop()):
                    if each.isDirectory():
                        waiting.append(each.getPath())
                    else:
                        found[str(each.getPath().toUri().getPath())] = _info(each)
        return found

    def cat_file(self, path: str) -> bytes:
        with _told(path), tempfile.TemporaryDirectory(prefix="sempre-") as folder:
            place = self._path(path)
            if self._files.getFileStatus(place).getLen() > MOST_BYTES:
                copy = Path(folder) / "copy"
                self._files.copyToLocalFile(False, place, self._jvm.org.apache.hadoop.fs.Path(copy.as_uri()), True)
                return copy.read_bytes()
            stream = self._files.open(place)
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

    def pipe_file(self, path: str, data: bytes) -> None:
        if len(data) > MOST_BYTES:
            with tempfile.TemporaryDirectory(prefix="sempre-") as folder:
                copy = Path(folder) / "copy"
                copy.write_bytes(data)
                self.put_file(str(copy), path)
            return
        with _told(path):
            stream = self._files.create(self._path(path), True)
            try:
                stream.write(bytearray(data))
                stream.hsync()
            finally:
                stream.close()

    def put_file(self, old: str, new: str) -> None:
        with _told(new):
            local = self._jvm.org.apache.hadoop.fs.Path(Path(old).absolute().as_uri())
            self._files.copyFromLocalFile(False, True, local, self._path(new))

    def mv(self, old: str, new: str) -> None:
        """Rename a file; an error if the name exists."""
        with _told(new):
            self._names.rename(self._path(old), self._path(new), self._no_options)

    def rm_file(self, path: str) -> None:
        """Remove a file, or a folder that is empty."""
        with _told(path):
            self._files.delete(self._path(path), False)

    def makedirs(self, path: str, *, exist_ok: bool) -> None:
        with _told(path):
            self._files.mkdirs(self._path(path))


def _info(status: Any) -> dict[str, Any]:
    return {"type": "directory" if status.isDirectory() else "file", "size": int(status.getLen())}


@contextmanager
def _told(path: str) -> Iterator[None]:
    """What Java raises as the error of a file system."""
    from py4j.protocol import Py4JError, Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        kind = _KINDS.get(str(error.java_exception.getClass().getSimpleName()), OSError)
        raise kind(5, cause_of(error).removeprefix("caused by ") or reason_of(error), path) from None
    except Py4JError as error:
        raise OSError(5, reason_of(error), path) from None
