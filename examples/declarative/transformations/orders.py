"""Tables that Spark keeps up to date from the journal of a queue. The store is what LOCALQUEUE_URL says."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()

ORDER = "order_id long, customer string, city string, product string, amount double, _created_at timestamp"


@dp.table
def orders() -> DataFrame:
    """Every order that was put, with its fields as columns: a streaming table, each run adds what is new."""
    return spark.readStream.format("localqueue").option("queue", "orders").option("schema", ORDER).load()


@dp.materialized_view
def revenue_by_city() -> DataFrame:
    return spark.read.table("orders").groupBy("city").agg(
        F.count("*").alias("orders"), F.round(F.sum("amount"), 2).alias("revenue")
    )  # fmt: skip


@dp.materialized_view
def best_customers() -> DataFrame:
    return (
        spark.read.table("orders")
        .groupBy("customer")
        .agg(F.count("*").alias("orders"), F.round(F.sum("amount"), 2).alias("revenue"))
        .orderBy(F.desc("revenue"))
        .limit(20)
    )
