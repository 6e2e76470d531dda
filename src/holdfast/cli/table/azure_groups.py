"""Which groups of commands are those of the original's ``az ml``."""

from __future__ import annotations

# The groups of the Workbench. Every other word after ``az ml`` belongs to Microsoft's own machine learning extension.
WORKBENCH_GROUPS = (
    *("experiment", "history", "computetarget", "computecontext", "runconfiguration", "runconfigurations"),
    *("project", "execute", "asset", "notebook", "account"),
)
# Groups that Microsoft's own extension ``ml`` has too: where it is installed, they are its.
SHARED_GROUPS = ("workspace", "model", "service")
