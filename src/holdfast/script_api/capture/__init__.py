"""Records what a script logs with MLflow, wandb, TensorBoard or Lightning in the run's own metrics as well."""
