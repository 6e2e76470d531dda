"""How scripts of mid-2017 got at their logger."""

from ..logging import get_azureml_logger as current_run  # noqa: TID252

__all__ = ["current_run"]
