"""Airflow: an operator that brings a store of sempre to its sources, and an hourly DAG with it.

Put this file into Airflow's folder of DAGs, and install `sempre` with what its sources need (`sempre[delta]`,
`sempre[iceberg]`) where tasks run. The variable `sempre_store` names the store; `sempre init STORE PROGRAM.dl -F FACTS
-D OUT` has made it. A run that is killed is simply repeated: a version of a source is applied once or not at all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pendulum
from airflow.exceptions import AirflowException, AirflowSkipException
from airflow.models.baseoperator import BaseOperator
from airflow.models.dag import DAG


class SempreRefreshOperator(BaseOperator):  # type: ignore[misc]  # without Airflow it is anything
    """Refreshes and publishes a store; what follows is skipped where nothing was new.

    Returns the report of the epoch: its number, what came and went, the seconds, and why.
    """

    template_fields = ("store", "facts", "outputs")

    def __init__(
        self, *, store: str, facts: str | None = None, outputs: str | None = None, skip: bool = True, **options: Any
    ) -> None:
        super().__init__(**options)
        self.store = store
        self.facts = facts
        self.outputs = outputs
        self.skip = skip

    def execute(self, context: Any) -> dict[str, Any]:
        """One epoch, if something is new; in a process of its own, which ends when the task is ended."""
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.json"
            command = [sys.executable, "-m", "sempre.cli", "refresh", self.store, "-v", "--report", str(report)]
            command += ["-F", self.facts] if self.facts else []
            command += ["-D", self.outputs] if self.outputs else []
            done = subprocess.run(command, env={**os.environ, "SEMPRE_LOG": "text"}, check=False)
            if done.returncode:
                raise AirflowException(f"sempre refresh ended with {done.returncode}; the log has the error")
            told = json.loads(report.read_text("utf-8"))
        if self.skip and not (told["epochs"] or told["published"]):  # a run before may not have come to publishing
            raise AirflowSkipException("the sources have nothing new")
        return next(iter(told["epochs"]), {})


with DAG(
    dag_id="sempre_refresh",
    schedule="@hourly",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,  # a store has one writer
) as dag:
    SempreRefreshOperator(task_id="refresh", store="{{ var.value.sempre_store }}")
