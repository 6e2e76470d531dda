"""The first name of ``azureml.sdk``. A really installed azureml_sdk goes first."""

from azureml._holdfast_shadow import give_way  # type: ignore[import-not-found]

give_way(__name__, __path__)
