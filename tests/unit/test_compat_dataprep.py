"""``azureml.dataprep`` and ``azureml.api`` in real processes, from the files that travel to a target."""

from __future__ import annotations

import json
import sys

import pytest
from test_compat import Place, make_place

CSV = "sepal,petal,species\r\n5.1,1.4,Iris-setosa\r\n4.9,1.5,Iris-virginica\r\n6.2,4.5,Iris-versicolor\r\n"


def block(kind: str, **arguments: object) -> dict[str, object]:
    suffix = "" if kind == "DeriveColumnByExample" else "Block"
    return {"id": "x", "type": f"Microsoft.DPrep.{kind}{suffix}", "arguments": arguments}


def typed(name: str, kind: int, **details: object) -> dict[str, object]:
    return {"columnId": name, "typeProperty": kind, "typeArguments": details}


def source(*paths: str) -> dict[str, object]:
    return block("DataSource", path={"target": 0, "resourceDetails": [{"path": path} for path in paths]})


def parse(**arguments: object) -> dict[str, object]:
    usual = {"preview": False, "columnHeadersMode": 1, "separator": ",", "fileEncoding": 0, "skipRowsMode": 0}
    return block("ParseDelimited", **{**usual, "handleQuotedLineBreaks": False, **arguments})


def refers(path: str | None, activity: str | None) -> dict[str, object]:
    reference = {"referenceType": int(path is not None), "referenceContainerPath": path}
    rest = {"referencedBranchId": None, "referencedStep": None, "anonymousSteps": None}
    return block("ReferenceActivity", reference={**reference, "referencedActivityId": activity, **rest})


def chosen(kind: str, column: str, *clauses: tuple[object, ...], remove: int = 0, any_of: int = 1) -> dict[str, object]:
    rows = [dict(zip(("operator", "value"), clause, strict=False)) for clause in clauses]
    return block(f"Filter{kind}Column", columnId=column, filterResult=remove, clauseRelationship=any_of, clauses=rows)


def flow(*activities: list[dict[str, object]]) -> str:
    """A package as the app wrote it: inspectors, which also have a type, follow the blocks of each data flow."""
    inspector = {"id": "i", "type": "Microsoft.DPrep.DataQualityInspector", "arguments": {}, "isBackground": True}
    written = [
        {"id": f"a{number}", "name": "iris", "blocks": blocks, "inspectors": [inspector]}
        for number, blocks in enumerate(activities)
    ]
    return json.dumps({"schemaVersion": 38, "id": "p", "activities": written, "runConfigurations": []}, indent=2)


SOURCE = [
    source("C:\\Users\\ada\\iris.csv"),
    parse(),
    block("SetColumnTypes", columnConversion=[typed("sepal", 3), typed("petal", 3)]),
    block("Sample", samples=[{"sampleName": "Top 10000", "sampleStrategy": 0}], activeSample="s"),
    block("HandlePathColumn", pathColumnOperation=0),
]
BASE = refers("./iris.dsource", "a0")
MEAN = 'high = df["sepal"].max()\r\ndf["sepal"] = df["sepal"] / high\r\n\r\ndf'
FLOWS: dict[str, list[list[dict[str, object]]]] = {
    "loop": [[refers(None, "a0")]],
    "given": [[BASE, chosen("Number", "sepal", (8, 3))]],
    "steps": [
        [
            BASE,
            block("ColumnRename", newColumnId="kind", columnId="species"),
            chosen("String", "kind", (0, "Iris-setosa"), (0, "Iris-virginica")),
            block("AddCustomColumn", columnId="log", priorColumnId="sepal", customExpression="math.log(row.sepal)"),
            block("AddCustomColumn", columnId="x", customExpression="def newvalue(row):\n    return row['petal'] + 1"),
            block("DeleteColumn", columnIds=["petal"]),
            block("KeepColumn", columnIds=["sepal", "log", "x", "kind"]),
            block("Custom", customBlock=MEAN, codeBlockType=0),
        ],
        [refers(None, "a0"), chosen("Number", "sepal", (8, 1))],
    ],
    # The steps of the tutorials: values that are no numbers are errors, which a filter removes.
    "tutorial": [
        [
            source("weather.csv"),
            parse(),
            block("ConvertColumnFieldType", columnIds=["wind"], decimalPoint=0),
            chosen("Number", "wind", (5,)),
            chosen("String", "place", (2,), remove=1),
        ],
        [source("weather.csv"), parse(), chosen("String", "wind", (2,), (0, "VRB"), remove=1)],
        [source("weather.csv"), parse(), block("MissingValues", action=2, replacementValue="0", columnIds=["wind"])],
        [source("weather.csv"), parse(), block("SelectRowsOnDistinctValuesInColumn", columnIds=["place"])],
        [source("weather.csv"), parse(), chosen("String", "wind", (1, "3"), (3,), any_of=0)],
    ],
    "dates": [
        [
            source("dates.csv"),
            parse(columnHeadersMode=0),
            block("SetColumnTypes", columnConversion=[typed("Column1", 4, dateTimeFormats=["%d.%m.%Y", "%Y-%m-%d"])]),
            block("SetColumnTypes", columnConversion=[typed("Column2", 4), typed("Column3", 1)]),
        ],
    ],
    "two": [[source("one.csv", "two.csv"), parse()], [source("one.csv", "two.csv"), parse(columnHeadersMode=3)]],
    "activity": [[refers("./steps.dprep", "b")]],
    "skipped": [[source("one.csv"), parse(skipRowsMode=2, skipRows=1)]],
}
FAR = source("https://x.blob.core.windows.net/a.csv")
WRONG = {
    "derive": (block("DeriveColumnByExample", dsl="x"), "block DeriveColumnByExample: this block is not supported"),
    "column": (chosen("Number", "nose", (8, 1)), "there is no column 'nose'"),
    "like": (chosen("String", "species", (7, "x")), "the operator 7 is not known; known are 0 (equals), 1"),
    "row": (block("AddCustomColumn", columnId="x", customExpression="row['no']"), "the expression"),
    "code": (block("Custom", customBlock="df[0"), "the code cannot be parsed"),
    "made": (block("Custom", customBlock="1"), "the code made a int, not a DataFrame"),
    "none": (block("ColumnRename", newColumnId="x"), "it names no columns"),
    "type": (block("SetColumnTypes", columnConversion=[typed("sepal", 9)]), "the typeProperty 9 is not known"),
    "comma": (block("ConvertColumnFieldType", columnIds=["sepal"], decimalPoint=1), "only numbers with a decimal"),
    "keep": (chosen("String", "species", (0, "x"), remove=3), "filterResult is 3, which is not known"),
    "clause": (block("FilterNumberColumn", columnId="sepal", filterResult=0), "it has no clauses"),
    "far": (FAR, "download it and name the file"),
    "before": (parse(), "the data has been parsed before"),
}
# What reading the file finds: ragged rows, a wrong encoding, an encoding that is not known, an empty file.
UNREADABLE = {
    "ragged": (b"a,b\n1,2,3,4\n", parse(), "ragged.csv: a row has more fields than the 2 headers"),
    "later": (b"a,b\n1,2\n1,2,3\n", parse(), "Expected 2 fields in line 3, saw 3"),
    "latin": ("a,b\n1,2\n\u00e9,2\n".encode("latin-1"), parse(), "latin.csv:3: not utf-8 text"),
    "code7": (b"a\n", parse(fileEncoding=9), "the fileEncoding 9 is not known"),
    "empty": (b"", parse(), "EmptyDataError"),
}
FRAME = """
from azureml.dataprep.package import run
print(run({!r}, dataflow_idx={}, spark=False).to_csv(index=False))
"""
CODES = {
    "source": "from azureml.dataprep import datasource as d\nprint(d.load_datasource('iris.dsource').to_csv())",
    "kinds": "from azureml.dataprep import datasource as d\nprint(list(map(str, "
    "d.load_datasource('iris.dsource').dtypes))[:2])",
    "given": """
import pandas as pd
from azureml.dataprep.package import run_on_data
print(run_on_data({"C:/x/iris.dsource": pd.DataFrame({"sepal": [1.0, 9.0]})}, "given.dprep", spark=False).to_csv())
""",
    "typo": "from azureml.dataprep import package\npackage.run_on_data({'typo.dsource': [['a']]}, 'given.dprep')",
    "text": "from azureml.dataprep import package\npackage.run_on_data({'iris.dsource': 'x'}, 'given.dprep')",
    "rows": """
from azureml.dataprep.package import run_on_data
rows = [["sepal", "petal", "species"], ["2.5", "1", "a"], ["9", "1", "b"]]
print(run_on_data({"C:/x/iris.dsource": rows}, "given.dprep").to_csv(index=False))
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
    "absent": "from azureml.dataprep import package\npackage.run('absent.dprep')",
    "index": "from azureml.dataprep import package\npackage.run('steps.dprep', 2)",
    **{
        f"{name} {number}": FRAME.format(f"{name}.dprep", number)
        for name in FLOWS
        for number in range(len(FLOWS[name]))
    },
    **{name: f"from azureml.dataprep import package\npackage.run('{name}.dprep')" for name in (*WRONG, *UNREADABLE)},
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
    (place.cwd / "weather.csv").write_text("wind,place\n3,NA\nVRB,b\n,c\n7,\n7,\n")
    (place.cwd / "dates.csv").write_text("31.01.2015,2015-01-31,yes\n2015-02-01,3 Mar 2015 10:00,no\nx,,2\n")
    (place.cwd / "one.csv").write_text('a,b\n1,"two, ""quoted""\nlines"\n')
    (place.cwd / "two.csv").write_text("a,b\n3,four\n")
    (place.cwd / "iris.dsource").write_text("\ufeff" + flow(SOURCE), encoding="utf-8")
    for name, activities in FLOWS.items():
        (place.cwd / f"{name}.dprep").write_text(flow(*activities), encoding="utf-16" if name == "two" else "utf-8")
    for name, (step, _) in WRONG.items():
        (place.cwd / f"{name}.dprep").write_text(flow([BASE, step]))
    for name, (data, step, _) in UNREADABLE.items():
        (place.cwd / f"{name}.csv").write_bytes(data)
        (place.cwd / f"{name}.dprep").write_text(flow([source(f"{name}.csv"), step]))
    return place


@pytest.fixture(scope="module")
def answers(place: Place) -> dict[str, str]:
    result = place.run(PROGRAM.format(codes=CODES))
    assert result.returncode == 0, result.stderr
    found: dict[str, str] = json.loads(result.stdout)
    return found


def test_data_source_is_loaded_with_types(answers: dict[str, str]) -> None:
    assert answers["source"].splitlines() == [
        ",sepal,petal,species",
        "0,5.1,1.4,Iris-setosa",
        "1,4.9,1.5,Iris-virginica",
        "2,6.2,4.5,Iris-versicolor",
        "",
    ]


def test_decimal_column_without_fractions_is_of_floats(answers: dict[str, str]) -> None:
    assert answers["kinds"] == "['float64', 'float64']\n"


def test_package_renames_filters_drops_keeps_derives_and_transforms(answers: dict[str, str]) -> None:
    assert answers["steps 0"].splitlines()[:2] == [
        "sepal,log,x,kind",
        "1.0,1.62924053973028,2.4,Iris-setosa",
    ]
    assert len(answers["steps 0"].splitlines()) == 4


def test_flow_that_refers_to_another_of_its_package_begins_with_its_result(answers: dict[str, str]) -> None:
    assert answers["steps 1"].splitlines()[1].startswith("0.96")
    assert len(answers["steps 1"].splitlines()) == 3


def test_filters_tell_errors_from_missing_values(answers: dict[str, str]) -> None:
    assert answers["tutorial 0"] == "wind,place\n3.0,NA\n,c\n\n"
    assert answers["tutorial 1"] == "wind,place\n3,NA\n7,\n7,\n\n"
    assert answers["tutorial 2"] == "wind,place\n3,NA\nVRB,b\n0,c\n7,\n7,\n\n"
    assert answers["tutorial 3"] == "wind,place\n3,NA\nVRB,b\n,c\n7,\n\n"
    assert answers["tutorial 4"] == "wind,place\nVRB,b\n7,\n7,\n\n"


def test_dates_of_several_formats_and_booleans_are_read(answers: dict[str, str]) -> None:
    assert answers["dates 0"].splitlines() == [
        "Column1,Column2,Column3",
        "2015-01-31,2015-01-31 00:00:00,True",
        "2015-02-01,2015-03-03 10:00:00,False",
        ",,",
        "",
    ]


def test_headers_are_those_of_the_first_file_or_of_every_file(answers: dict[str, str]) -> None:
    quoted = 'a,b\n1,"two, ""quoted""\nlines"\n'
    assert answers["two 0"] == quoted + "a,b\n3,four\n\n"
    assert answers["two 1"] == quoted + "3,four\n\n"
    assert answers["skipped 0"].startswith('1,"two, ""quoted""\nlines"\n')


def test_run_on_data_takes_a_frame_in_place_of_the_source(answers: dict[str, str]) -> None:
    assert answers["given"] == ",sepal\n0,1.0\n\n"


def test_run_on_data_takes_rows_in_place_of_the_lines_of_a_file(answers: dict[str, str]) -> None:
    assert answers["rows"] == "sepal,petal,species\n2.5,1.0,a\n\n"


def test_run_on_data_refuses_data_that_it_would_ignore(answers: dict[str, str]) -> None:
    assert "given.dprep: the data flow has no data source typo.dsource; it has: given.dprep, iris" in answers["typo"]
    assert "the data for iris.dsource is 'x', which is neither a list of rows nor a frame" in answers["text"]


def test_session_that_is_given_makes_the_frame(answers: dict[str, str]) -> None:
    assert answers["session"] == "('spark', 3)\n"


@pytest.mark.parametrize("name", WRONG)
def test_what_is_not_known_names_block_and_line(place: Place, answers: dict[str, str], name: str) -> None:
    step, message = WRONG[name]
    text = (place.cwd / f"{name}.dprep").read_text().splitlines()
    line = next(n for n, written in enumerate(text, 1) if str(step["type"]) in written)
    assert answers[name].startswith(f"DataPrepError {name}.dprep:{line}: block ")
    assert message in answers[name]


@pytest.mark.parametrize("name", UNREADABLE)
def test_data_that_cannot_be_parsed_names_block_and_line(answers: dict[str, str], name: str) -> None:
    assert answers[name].startswith(f"DataPrepError {name}.dprep:")
    assert UNREADABLE[name][2] in answers[name]


def test_package_that_is_not_there_and_flow_that_is_not_there_are_named(answers: dict[str, str]) -> None:
    assert "absent.dprep: this file cannot be read" in answers["absent"]
    assert "steps.dprep: there is no data flow 2; it has 2, counted from 0" in answers["index"]
    assert "DataPrepError steps.dprep: there is no data flow with the id b; it has 2 others" in answers["activity 0"]


def test_endless_references_are_an_error(answers: dict[str, str]) -> None:
    assert "without end" in answers["loop"]


def test_schema_of_inputs_is_written(place: Place, answers: dict[str, str]) -> None:
    assert answers["schema"] == ""
    assert json.loads((place.outputs / "schema.json").read_text())["input"] == {
        "input_df": {"type": "pandas", "example": [{"a": 1}]}
    }
