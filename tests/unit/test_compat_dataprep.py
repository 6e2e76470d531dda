"""``azureml.dataprep`` and ``azureml.api`` in real processes, from the files that travel to a target."""

from __future__ import annotations

import json
import sys

import pytest
from test_compat import Place, make_place

CSV = "sepal,petal,species\r\n5.1,1.4,Iris-setosa\r\n4.9,1.5,Iris-virginica\r\n6.2,4.5,Iris-versicolor\r\n"


def block(kind: str, **arguments: object) -> dict[str, object]:
    return {"id": "x", "type": f"Microsoft.DPrep.{kind}Block", "arguments": arguments, "isEnabled": True}


def column(*names: str) -> dict[str, object]:
    if len(names) == 1:
        return {"type": 2, "details": {"selectedColumn": names[0]}}
    return {"type": 0, "details": {"selectedColumns": list(names)}}


SOURCE = [
    block("DataSource", path={"target": 1, "resourceDetails": [{"path": "C:\\Users\\ada\\iris.csv"}]}),
    block("ParseDelimited", separator=",", columnHeadersMode=3, fileEncoding=0, skipRows=0),
    block("HandlePathColumn", pathColumnOperation=0),
    block("SetColumnTypes", columnConversion=[{"column": column("sepal"), "typeProperty": 3}]),
    block("Sample", sampleSize=1000),
]


def flow(blocks: list[dict[str, object]]) -> str:
    return json.dumps({"schemaVersion": 30, "activities": [{"id": "a", "name": "iris", "blocks": blocks}]}, indent=1)


RENAMED = [
    block("ColumnRename", columnId=column("species"), newColumnId="kind"),
    block("FilterNumber", column=column("sepal"), operator=">", value=5),
    block("FilterString", column=column("kind"), operator="contains", value="setosa"),
    block("AddCustomColumn", newColumnName="twice", customExpression="row['sepal'] * 2"),
    block("DeleteColumn", columns=column("petal", "sepal")),
    block("KeepColumns", columns=column("kind", "twice")),
]
FAR = block("DataSource", path={"resourceDetails": [{"path": "https://x.blob.core.windows.net/a.csv"}]})
WRONG = {
    "derive": (block("DeriveByExample", x=1), "block DeriveByExample: this block is not supported; supported are"),
    "column": (block("FilterNumber", column=column("nose"), operator="<", value=1), "there is no column 'nose'"),
    "like": (block("FilterString", column=column("species"), operator="like", value="x"), "the condition 'like'"),
    "row": (block("AddCustomColumn", newColumnName="x", customExpression="row['no']"), "the expression"),
    "none": (block("ColumnRename"), "it names no columns"),
    "far": (FAR, "download it and name the file"),
}
CODES = {
    "source": "from azureml.dataprep import datasource as d\nprint(d.load_datasource('iris.dsource').to_csv())",
    "steps": "from azureml.dataprep import package as p\nprint(p.run('steps.dprep', 0).to_csv(index=False))",
    "given": """
import pandas as pd
from azureml.dataprep.package import run_on_data
print(run_on_data({"C:/x/iris.dsource": pd.DataFrame({"sepal": [1.0, 9.0]})}, "given.dprep", spark=False).to_csv())
""",
    "session": """
from azureml.dataprep import datasource
class Session:
    def createDataFrame(self, frame):
        return "spark", len(frame)
print(datasource.load_datasource("iris.dsource", spark=Session()))
""",
    "schema": """
from azureml.api.schema.dataTypes import DataTypes
from azureml.api.schema.sampleDefinition import SampleDefinition
from azureml.api.realtime.services import generate_schema
import pandas as pd
inputs = {"input_df": SampleDefinition(DataTypes.PANDAS, pd.DataFrame({"a": [1]}))}
generate_schema(run_func=len, inputs=inputs, filepath="outputs/schema.json")
""",
    "loop": "from azureml.dataprep import package\npackage.run('loop.dprep')",
    **{name: f"from azureml.dataprep import package\npackage.run('{name}.dprep')" for name in WRONG},
}
# All in one process, because pandas takes long to import.
PROGRAM = """
import contextlib, io, json
answers = {{}}
for name, code in {codes!r}.items():
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        try:
            exec(code, {{}})
        except Exception as problem:
            print(type(problem).__name__, problem)
    answers[name] = said.getvalue()
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = make_place(sys.executable, tmp_path_factory.mktemp("dataprep"))
    (place.cwd / "iris.csv").write_text(CSV, newline="")
    (place.cwd / "iris.dsource").write_text("\ufeff" + flow(SOURCE), encoding="utf-8")
    (place.cwd / "loop.dprep").write_text(flow([block("ReferenceActivity", reference="loop.dprep")]))
    with_steps(place, "steps", *RENAMED)
    with_steps(place, "given", block("FilterNumber", column=column("sepal"), operator="<", value=3))
    for name, (step, _) in WRONG.items():
        with_steps(place, name, step)
    return place


@pytest.fixture(scope="module")
def answers(place: Place) -> dict[str, str]:
    result = place.run(PROGRAM.format(codes=CODES))
    assert result.returncode == 0, result.stderr
    found: dict[str, str] = json.loads(result.stdout)
    return found


def with_steps(place: Place, name: str, *steps: dict[str, object]) -> None:
    whole = [block("ReferenceActivity", reference={"relativePath": "iris.dsource"}), *steps]
    (place.cwd / f"{name}.dprep").write_text(flow(whole))


def test_data_source_is_loaded_with_types(answers: dict[str, str]) -> None:
    assert answers["source"].splitlines() == [
        ",sepal,petal,species",
        "0,5.1,1.4,Iris-setosa",
        "1,4.9,1.5,Iris-virginica",
        "2,6.2,4.5,Iris-versicolor",
        "",
    ]


def test_package_renames_filters_drops_keeps_and_derives(answers: dict[str, str]) -> None:
    assert answers["steps"] == "kind,twice\nIris-setosa,10.2\n\n"


def test_run_on_data_takes_a_frame_in_place_of_the_source(answers: dict[str, str]) -> None:
    assert answers["given"] == ",sepal\n0,1.0\n\n"


def test_session_that_is_given_makes_the_frame(answers: dict[str, str]) -> None:
    assert answers["session"] == "('spark', 3)\n"


@pytest.mark.parametrize("name", WRONG)
def test_what_is_not_known_names_block_and_line(place: Place, answers: dict[str, str], name: str) -> None:
    step, message = WRONG[name]
    text = (place.cwd / f"{name}.dprep").read_text().splitlines()
    line = next(n for n, written in enumerate(text, 1) if str(step["type"]) in written)
    assert answers[name].startswith(f"DataPrepError {name}.dprep:{line}: block ")
    assert message in answers[name]


def test_endless_references_are_an_error(answers: dict[str, str]) -> None:
    assert "without end" in answers["loop"]


def test_schema_of_inputs_is_written(place: Place, answers: dict[str, str]) -> None:
    assert answers["schema"] == ""
    assert json.loads((place.outputs / "schema.json").read_text())["input"] == {
        "input_df": {"type": "pandas", "example": [{"a": 1}]}
    }
