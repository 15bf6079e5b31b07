"""Batches of a stream kept as Parquet beside the checkpoint, and handed over from there.

On Spark Connect the function of `foreachBatch` runs in a process of the server, where the database is not. There it
only keeps the batch, and the client reads it back. `INBOX/data/7` has the rows of batch 7, `INBOX/done/7` a single file
that appears by one rename when they are complete. A batch that was kept is never written again, so that one that Spark
repeats after a crash is not taken away while it is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sempre.data import dataclass
from sempre.spark.failures import condition_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Inbox:
    """The kept batches of one stream, in a folder that Spark can reach."""

    spark: SparkSession
    folder: str
    schema: Any

    def is_kept(self, batch: int) -> bool:
        """Whether a batch is there, and complete."""
        from pyspark.errors import AnalysisException

        try:
            return bool(self.spark.read.schema("id bigint").parquet(f"{self.folder}/done/{batch}").count())
        except AnalysisException as error:
            if condition_of(error).startswith("PATH_NOT_FOUND"):
                return False
            raise

    def read(self, batch: int) -> DataFrame:
        """The rows of a batch that is kept; its columns have their names again."""
        fields = self.schema.fields
        schema = type(self.schema)([type(field)(f"c{at}", field.dataType) for at, field in enumerate(fields)])
        return self.spark.read.schema(schema).parquet(f"{self.folder}/data/{batch}").toDF(*self.schema.names)


def keeper(folder: str) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch` that keeps batches in `folder`; it needs nothing of this package where it runs."""

    def keep(df: Any, batch: int) -> None:
        from pyspark.errors import AnalysisException

        session = df.sparkSession
        done = f"{folder}/done/{batch}"
        try:
            if session.read.schema("id bigint").parquet(done).count():
                # A stream with a state of its own would lack what Spark remembers of the batch.
                df.write.format("noop").mode("overwrite").save()
                return
        except AnalysisException as error:
            if not str(error.getCondition()).startswith("PATH_NOT_FOUND"):
                raise
        # Named by place: Parquet and the session may disagree on what is a good name, or the same one.
        df.toDF(*[f"c{at}" for at in range(len(df.columns))]).write.mode("overwrite").parquet(f"{folder}/data/{batch}")
        session.range(1).coalesce(1).write.mode("overwrite").parquet(done)

    # Pickled by value: the server's Python may not have this package.
    keep.__module__ = "__main__"
    return keep
