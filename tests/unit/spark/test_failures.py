"""What Spark raises, told with what is behind it."""

from __future__ import annotations

import pytest

from sempre.diagnostics import NOWHERE, BackendError, DataError

pytest.importorskip("pyspark")

from pyspark.errors import PySparkException

from sempre.spark.failures import cause_of, job_errors, reading, reason_of, writing

NO_DRIVER = """An error occurred while calling o53.load.
: java.sql.SQLException: No suitable driver
\tat java.sql/java.sql.DriverManager.getDriver(DriverManager.java:300)
\tat org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions.<init>(JDBCOptions.scala:118)
"""
NO_MODULE = """Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent failure: \
Lost task 0.3 in stage 0.0 (TID 3) (10.0.0.1 executor 1): org.apache.spark.api.python.PythonException: \
Traceback (most recent call last):
  File "/opt/spark/python/pyspark/worker.py", line 1, in main
    process()
  File "/opt/spark/python/pyspark/pandas.py", line 2, in process
    import pyarrow
ModuleNotFoundError: No module named 'pyarrow'

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:572)
"""
WORKER = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/opt/spark/python/pyspark/worker.py", line 1, in main
    import pyarrow
ModuleNotFoundError: No module named 'pyarrow'
"""
LOST = (
    "Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: "
    "Lost task 0.0 in stage 1.0 (TID 1) (localhost executor driver): java.io.IOException: No space left on device"
)
CAUSED = """[FAILED_READ_FILE] Error while reading file x.parquet.

JVM stacktrace:
org.apache.spark.SparkException
\tat a.b.c(d.scala:1)
Caused by: java.lang.RuntimeException: is not a Parquet file
\tat a.b.c(d.scala:2)
Caused by: java.io.IOException: tail is too short
\t... 3 more
"""
CASES = [
    (NO_DRIVER, "No suitable driver"),
    (NO_MODULE, "ModuleNotFoundError: No module named 'pyarrow'"),
    (WORKER, "ModuleNotFoundError: No module named 'pyarrow'"),
    (LOST, "No space left on device"),
    (CAUSED, "java.io.IOException: tail is too short"),
]


@pytest.mark.parametrize(("text", "cause"), CASES)
def test_the_cause_is_told_wherever_spark_fails(text: str, cause: str) -> None:
    for guard, kind in (
        (reading("table `t`", NOWHERE), DataError),
        (writing("table `t`", NOWHERE), DataError),
        (job_errors(), BackendError),
    ):
        with pytest.raises(kind) as caught, guard:
            raise PySparkException(text)
        assert cause in str(caught.value)
        assert "\tat " not in str(caught.value)


@pytest.mark.parametrize(("text", "cause"), CASES)
def test_the_cause_is_also_found_in_a_trace_that_is_kept_apart(text: str, cause: str) -> None:
    error = PySparkException("it failed")
    error._stackTrace = text  # type: ignore[attr-defined]  # as a classic session has it
    assert cause in cause_of(error)


def test_what_is_said_once_is_not_said_twice() -> None:
    assert (reason_of(ValueError("no luck")), cause_of(ValueError("no luck"))) == ("no luck", "")
    assert cause_of(PySparkException(NO_DRIVER)) == ""
    assert len(cause_of(PySparkException(f"x\nCaused by: {'y' * 5_000}"))) < 400
    assert reason_of(None) == "unknown"
