"""``azureml.dataprep`` of the original: ``package.run`` and ``datasource.load_datasource`` for old scripts."""
