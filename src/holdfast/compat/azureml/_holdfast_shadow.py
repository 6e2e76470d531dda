"""Standing back: an installed package is imported in place of ours of the same name, and ours fills its gaps."""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def give_way(name: "str", own: "Iterable[str]") -> "None":
    """Called while our package is imported: look for another one further down the path, and search its folders first.

    An installed package replaces ours altogether, so that it finds itself as it expects to be; a namespace package
    has no code of its own and only lends its folders.
    """
    own = list(own)
    spec = PathFinder.find_spec(name, [entry for entry in sys.path if not _is_ours(entry)])
    if spec is None:
        return
    installed = list(spec.submodule_search_locations or ())
    if spec.loader is None:
        sys.modules[name].__path__ = installed + own
        return
    module = module_from_spec(spec)
    module.__path__ = installed + own
    sys.modules[name] = module
    spec.loader.exec_module(module)
    # pkgutil.extend_path and its kind add further installed folders, behind ours.
    module.__path__ = [folder for folder in module.__path__ if folder not in own] + own


def _is_ours(entry: "str") -> "bool":
    return os.path.isfile(os.path.join(entry, "azureml", "_holdfast_shadow.py"))
