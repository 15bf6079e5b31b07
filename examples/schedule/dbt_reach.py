"""dbt: a Python model whose rules are recursive, for adapters that hand a Spark session to models.

Put this file and its configuration into the folder of models. `edge` is another model. With `sempre_store` in the
configuration, the model remembers its last run there, and follows what has changed since; without, it starts afresh:

    models:
      - name: reach
        config:
          sempre_store: /data/stores/reach
"""

from __future__ import annotations

from typing import Any

import sempre

PROGRAM = """
.decl edge(x: symbol, y: symbol)
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
"""
SOURCES = ("edge",)


def model(dbt: Any, session: Any) -> Any:
    """The relation `reach`, as a DataFrame."""
    dbt.config(materialized="table", packages=["sempre"])
    store = dbt.config.get("sempre_store")
    database = sempre.Database(PROGRAM, spark=session, store=store)
    insert, delete = {}, {}
    for name in SOURCES:
        now, before = dbt.ref(name).distinct(), database[name].to_spark()
        insert[name], delete[name] = now.subtract(before), before.subtract(now)
    database.apply(insert=insert, delete=delete)
    # What is returned is read when the model has returned: rows of this session, not of the database.
    reach = session.createDataFrame(database["reach"].to_arrow())
    database.close()
    return reach
