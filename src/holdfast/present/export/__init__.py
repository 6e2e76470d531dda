"""Writes runs for other programs: TensorBoard, MLflow, and tables as CSV or Parquet."""
