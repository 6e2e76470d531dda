"""``current_run()``, as the first scripts imported it."""

from azureml.sdk.data_collector import current_run  # type: ignore[import-not-found]

__all__ = ["current_run"]
