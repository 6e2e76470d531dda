"""``azureml.api`` of the original: what training and scoring scripts import from it at their top."""
