"""What is inside of a database, each part with its type, for the tests that look there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

import sempre
from sempre.active.active_engine import ActiveEngine
from sempre.active.background import Session
from sempre.engine import Engine
from sempre.storage.keeper import Keeper

if TYPE_CHECKING:  # there are tests without Spark
    from sempre.spark.cluster.spark_backend import SparkBackend
    from sempre.spark.sources import Inputs


def engine_of(db: sempre.Database) -> Engine:
    """The engine of stratified rules."""
    assert isinstance(db._engine, Engine)
    return db._engine


def active_of(db: sempre.Database) -> ActiveEngine:
    """The engine of active rules."""
    assert isinstance(db._engine, ActiveEngine)
    return db._engine


def session_of(db: sempre.Database) -> Session:
    """What runs active rules in the background."""
    assert db._session is not None
    return db._session


def cluster_of(db: sempre.Database) -> SparkBackend:
    """The backend on Spark, of a database that may use the cluster."""
    assert db._cluster is not None
    return db._cluster


def keeper_of(db: sempre.Database) -> Keeper:
    """What keeps the epochs of a database with a store."""
    assert db._keeper is not None
    return db._keeper


def table_in(inputs: Inputs, name: str) -> pa.Table:
    """An input that was brought into the driver."""
    table = inputs.tables[name]
    assert isinstance(table, pa.Table)
    return table
