"""Where Spark looks for a data source of this name: `format("localqueue")` works without registering anything."""

from localqueue.spark.datasource import LocalQueueDataSource as DefaultSource

__all__ = ["DefaultSource"]
