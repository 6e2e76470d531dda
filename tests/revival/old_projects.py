"""Twelve small projects in the styles of 2017 and 2018, made for the tests: file name -> content."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LOCAL = "type: local\npythonLocation: python\n"
RUN = "ArgumentVector:\n- $file\nFramework: Python\nTarget: local\nTrackedRun: true\n"
CONDA = "aml_config/conda_dependencies.yml"
LOGGER = "from azureml.logging import get_azureml_logger\nrun_logger = get_azureml_logger()\n"
TRAIN = LOGGER + "run_logger.log('Accuracy', 0.96)\n"


def _flow(*blocks: tuple[str, dict[str, object]]) -> str:
    rows = [
        {"id": str(number), "type": f"Microsoft.DPrep.{kind}Block", "arguments": arguments}
        for number, (kind, arguments) in enumerate(blocks)
    ]
    return json.dumps({"schemaVersion": 35, "activities": [{"id": "a", "name": "iris", "blocks": rows}]}, indent=2)


_REFERENCE = {"referenceType": 1, "referenceContainerPath": ".\\iris.dsource", "referencedActivityId": "a"}
_PATH = {"resourceDetails": [{"path": "C:\\Users\\ada\\Documents\\AzureML\\iris\\iris.csv"}]}

PROJECTS: dict[str, dict[str, str]] = {
    "json-era": {
        "aml_config/local.compute": LOCAL,
        "aml_config/local.runconfig": '\n{\n  "Target": "Local",\n  "TrackedRun": true,\n  "CondaFile": null,\n'
        '  "ArgumentVector": ["$file"]\n}\n',
        "iris_sklearn.py": "from azureml.sdk import data_collector\n"
        "data_collector.current_run().log('Accuracy', 0.96)\n",
    },
    "windows-lines": {
        "aml_config/local.compute": LOCAL.replace("\n", "\r\n"),
        "aml_config/local.runconfig": RUN.replace("\n", "\r\n").rstrip(),
        CONDA: "name: project_environment\r\ndependencies:\r\n  - python=3.5.2\r\n  # kept\r\n  - sklearn\r\n",
        "train.py": TRAIN.replace("\n", "\r\n"),
    },
    "no-framework": {
        "aml_config/local.compute": LOCAL,
        "aml_config/local.runconfig": "ArgumentVector:\n- $file\nTarget: local\n",
        "train.py": TRAIN,
    },
    "dead-pins": {
        "aml_config/local.compute": LOCAL,
        "aml_config/local.runconfig": RUN,
        CONDA: "channels:\n- https://conda.binstar.org/menpo  # for opencv\n- conda-forge\ndependencies:\n"
        "- python=3.5.2\n- pip:\n  - PIL\n  - sklearn==0.0\n"
        "  - https://azuremldownloads.azureedge.net/wheels/azureml.assets-1.0-py3-none-any.whl?sig=x\n",
        "train.py": TRAIN,
    },
    "cntk-wheel": {
        "aml_config/local.compute": LOCAL,
        "aml_config/local.runconfig": RUN,
        "aml_config/dsvm.compute": "address: 203.0.113.7\nbaseDockerImage: microsoft/mmlspark:plus-gpu-0.9.9\n"
        "nvidiaDocker: true\npassword: AzureMlSecret=0123\ntype: remotedocker\nusername: ada\n",
        CONDA: "dependencies:\n  - python=3.5.2\n  - pip: \n    # the Linux build\n"
        "    - https://cntk.ai/PythonWheel/GPU/cntk_gpu-2.5.1-cp35-cp35m-win_amd64.whl\n",
        "mnist.py": "try:\n    import cntk\nexcept ImportError:\n    cntk = None\n" + TRAIN,
    },
    "tensorflow-1": {
        "aml_config/local.compute": LOCAL,
        "aml_config/local.runconfig": RUN,
        CONDA: "dependencies:\n  - python=3.5.2\n  # newest\n  - tensorflow-gpu\n",
        "tf_mnist.py": "import tensorflow as tf\nwith tf.Session() as session:\n    print(session)\n",
    },
    "dataprep": {
        "aml_config/local.compute": LOCAL,
        "aml_config/local.runconfig": RUN,
        "iris.csv": "petal,kind\n1.5,setosa\n4.5,versicolor\n",
        "iris.dsource": _flow(
            ("DataSource", {"path": _PATH}),
            ("ParseDelimited", {"separator": ",", "columnHeadersMode": 1, "fileEncoding": 0, "skipRowsMode": 0}),
            ("SetColumnTypes", {"columnConversion": [{"columnId": "petal", "typeProperty": 3, "typeArguments": {}}]}),
            ("HandlePathColumn", {"pathColumnOperation": 0}),
        ),
        "iris.dprep": _flow(
            ("ReferenceActivity", {"reference": _REFERENCE}),
            (
                "FilterNumberColumn",
                {"columnId": "petal", "filterResult": 1, "clauses": [{"operator": 8, "value": 2.0}]},
            ),
        ),
        "train.py": LOGGER
        + "from azureml.dataprep import package\nframe = package.run('iris.dprep', dataflow_idx=0, spark=False)\n"
        "run_logger.log('rows', len(frame))\nrun_logger.log('petal', float(frame['petal'][0]))\n",
    },
    "az-sweep": {
        "aml_config/local.compute": LOCAL,
        "aml_config/local.runconfig": RUN,
        "job.py": "import sys\n" + LOGGER + "run_logger.log('Regularization Rate', float(sys.argv[1]))\n",
        "run.py": "import os\nreg = 10.0\nwhile reg > 4:\n"
        "    code = os.system('az ml experiment submit -c local ./job.py {}'.format(reg))\n"
        "    print('sweep', reg, code)\n    reg = reg / 2\n",
    },
    "moved-modules": {
        "aml_config/local.compute": LOCAL,
        "aml_config/local.runconfig": RUN,
        "train.py": "from pandas.tools.plotting import scatter_matrix\n" + TRAIN,
        "score.py": "from azureml.api.schema.dataTypes import DataTypes\n\n\ndef init():\n    pass\n\n\n"
        "def run(x):\n    return x\n",
    },
    "spark-file": {
        "aml_config/local.compute": LOCAL,
        "aml_config/local.runconfig": RUN,
        "aml_config/hdi.compute": "address: ada-ssh.azurehdinsight.net\npassword:\ntype: cluster\nusername: sshuser\n",
        "aml_config/spark_dependencies.yml": "configuration:\n  'spark.app.name': 'App'\nrepositories:\n"
        "  # old\n  - https://dl.bintray.com/spark-packages/maven\npackages:\n  - group: com.microsoft.ml.spark\n"
        "    artifact: mmlspark_2.11\n    version: '0.9'\n",
        "train.py": TRAIN,
    },
    "placeholders": {
        "aml_config/local.compute": LOCAL,
        "aml_config/local.runconfig": RUN,
        "aml_config/vm.compute": "address: <vm address>\ntype: remote\nusername: [me]\n",
        "code/02_modeling/helper.py": "VALUE = 0.5\n",
        "code/02_modeling/Main.py": LOGGER + "import helper\nrun_logger.log('Accuracy', helper.VALUE)\n"
        "open('outputs/model.pkl', 'w').write('x')\n",
    },
    "python-2": {
        "aml_config/local.compute": LOCAL,
        "aml_config/local.runconfig": RUN,
        "old.py": "print 'hello'\n",
        "<img src=x onerror=alert(1)>.py": TRAIN + "print('<script>alert(1)</script>')\nraise SystemExit(3)\n",
    },
}


def make(folder: Path, name: str) -> Path:
    root = folder / name
    for file, content in PROJECTS[name].items():
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode())
    return root
