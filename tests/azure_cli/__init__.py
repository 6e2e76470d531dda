"""The real Azure CLI with the extension holdfast-az."""
