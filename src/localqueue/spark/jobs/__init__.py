"""The jobs of a data pipeline: what `localqueue.spark` offers beside the data source."""
