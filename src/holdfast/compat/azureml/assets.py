"""``get_local_path``: from the ``.link`` of a promoted asset to the file itself."""

import json
import os


def get_local_path(link_file: "str") -> "str":
    """The file that lies next to the link, under the asset's name or the link's own without ``.link``."""
    name, version = _asset(link_file)
    folder, link_name = os.path.split(os.path.abspath(link_file))
    places = [os.path.join(folder, name), os.path.join(folder, os.path.splitext(link_name)[0])]
    for path in places:
        if os.path.isfile(path):
            return path
    raise FileNotFoundError(
        f"{link_file!a} stands for the asset {name!a}, version {version!a}, whose file is not here, and assets are not "
        f"fetched by themselves yet: put the file at {places[0]!a}"
    )


def _asset(link_file: "str") -> "tuple[str, str]":
    with open(link_file, "rb") as source:
        text = source.read()
    try:
        link = json.loads(text.decode("utf-8-sig"))
        # The name is another's word: only its last part is used, as a file beside the link.
        name = os.path.basename(link["name"].replace("\\", "/"))
        if not name:
            raise ValueError("no name")
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise ValueError(
            f"{link_file!a} is not the link of an asset, which is one line such as "
            '{"assetSource": "azureml", "name": "model.pkl", "version": "3"} '
            f"({problem!r})"
        ) from problem
    return os.fsdecode(name.encode("utf-8", "surrogateescape")), str(link.get("version"))
