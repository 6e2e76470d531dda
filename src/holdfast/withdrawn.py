"""Facts about packages, wheels, channels, images and modules that old projects name and that no longer exist.

Every table names its source. The rows for pip were last compared with the public index on 2026-11-18; rows without
another date were compared with the named page on 2026-11-15. Patterns ignore case and are compiled on use.
"""

from __future__ import annotations

from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class Retired(Record):
    """A name that leads nowhere since that month; ``keeps_pin`` if versions mean the same under the new name."""

    since: str
    new: str
    why: str
    keeps_pin: bool = False


class GpuBuild(Record):
    """Builds of a framework: the versions up to ``until``, the CUDA they need, the cards that they hold code for.

    Code for a card serves the later ones of its generation. ``bundled``: the wheel has the CUDA libraries in it.
    """

    name: str
    until: tuple[int, ...]
    cuda: tuple[int, int]
    oldest_card: tuple[int, int]
    newest_generation: int
    bundled: bool = False


class DeadModule(Record):
    """An import that fails today; ``package`` below ``below`` still has it. ``new`` is what to write instead."""

    package: str
    below: str
    new: str


# Source: https://pypi.org/project/NAME/ of each; their release notes say why.
PIP_NAMES: Mapping[str, Retired] = {
    "sklearn": Retired("2023-12", "scikit-learn", "the package sklearn was a placeholder and has been removed"),
    "pytorch": Retired("2018-04", "torch", "pip's pytorch is an empty package that refuses to install"),
    "skimage": Retired("2017-01", "scikit-image", "skimage is the name of the module, not of the package"),
    "pil": Retired("2011-01", "pillow", "PIL ended with Python 2"),
    "cv2": Retired("2017-01", "opencv-python", "cv2 is the name of the module, not of the package"),
    "opencv": Retired("2017-01", "opencv-python", "opencv is conda's name for it"),
}
# Source: https://anaconda.org/conda-forge/NAME of each.
CONDA_NAMES: Mapping[str, Retired] = {
    "sklearn": Retired("2017-01", "scikit-learn", "sklearn is the name of the module, not of the package"),
    "torch": Retired("2017-01", "pytorch", "torch is pip's name for it", keeps_pin=True),
    "skimage": Retired("2017-01", "scikit-image", "skimage is the name of the module, not of the package"),
    "pil": Retired("2011-01", "pillow", "PIL ended with Python 2"),
    "cv2": Retired("2017-01", "opencv", "cv2 is the name of the module, not of the package"),
}

# Source: the wheels of https://pypi.org/project/tensorflow-gpu/. The last one for a Python; from 3.9 on the CUDA
# libraries come as an extra. 2.12.0 is an empty package that refuses to install, and the newest.
TENSORFLOW_GPU: Mapping[tuple[int, int], str] = {
    (3, 6): "tensorflow-gpu==2.6.2",
    (3, 7): "tensorflow-gpu==2.11.0",
    (3, 8): "tensorflow-gpu==2.11.0",
}
TENSORFLOW_TODAY = "tensorflow[and-cuda]"
TENSORFLOW_GPU_ENDED = (2, 12)
# Source: the wheels of https://pypi.org/project/tensorflow/1.15.5/ (cp36, cp37; 1.15.4 has cp35). Its metadata allow
# protobuf 4, with which it cannot be imported; Python 3.6 has none newer than 3.19.
TENSORFLOW_1 = "1.15.5"
TENSORFLOW_1_PYTHONS = ((3, 6), (3, 7))
TENSORFLOW_1_BESIDE: Mapping[tuple[int, int], tuple[str, ...]] = {(3, 7): ("protobuf<3.21",)}

# Source: the wheels of https://pypi.org/project/cntk/ and cntk-gpu/, all with cp36; older ones were on cntk.ai only,
# which ended with the service. 1-bit SGD is in the ordinary GPU build since 2.5 (release notes of CNTK 2.5).
CNTK_LIVING = ("2.5", "2.5.1", "2.6", "2.7")
CNTK_NEWEST_PYTHON = (3, 6)
CNTK_WHEEL = r"https?://(?:www\.)?cntk\.ai/PythonWheel/([^/]+)/[^/]+\.whl"
# Source: the end of life of Python 3.5 (PEP 478); pip 21 and today's conda channels serve 3.6 and newer.
OLDEST_PYTHON = (3, 6)

# Wheels of the original's own packages, on a host that was switched off with the service on 2019-01-09.
AZURE_WHEELS = r"https?://azuremldownloads\.[^/]+/"

# Channels and repositories that answer nothing or nothing useful. The second is the replacement, empty for none.
# Sources: https://www.anaconda.com/blog/anaconda-cloud-rename (binstar), https://docs.anaconda.com/release-notes/ (the
# old names of repo.anaconda.com), https://jfrog.com/blog/into-the-sunset-bintray-jcenter-gocenter-and-chartcenter/.
CHANNELS: tuple[tuple[str, str, str], ...] = (
    (r"https?://conda\.binstar\.org/([\w.-]+)/?", r"\1", "binstar.org is now anaconda.org"),
    (r"https?://(?:www\.)?binstar\.org/([\w.-]+)/?", r"\1", "binstar.org is now anaconda.org"),
    (
        r"https?://repo\.continuum\.io/pkgs/(?:free|main|pro)(?:/[\w-]+)?/?",
        "conda-forge",
        "repo.continuum.io no longer serves packages",
    ),
    (r"https?://azuremldownloads\.[^/]+/.*", "", "azuremldownloads no longer exists"),
    (r"https?://(?:www\.)?cntk\.ai/.*", "", "cntk.ai no longer exists"),
)
REPOSITORIES: tuple[tuple[str, str, str], ...] = (
    (
        r"https?://dl\.bintray\.com/spark-packages/maven/?",
        "https://repos.spark-packages.org",
        "bintray.com was switched off on 2021-05-01",
    ),
    (r"https?://(?:dl|jcenter)\.bintray\.com(?:/.*)?", "", "bintray.com was switched off on 2021-05-01"),
    (
        r"https?://mmlspark\.azureedge\.net/maven/?",
        "https://mmlspark.blob.core.windows.net/maven",
        "azureedge.net was switched off in 2025",
    ),
)
# Packages of Spark 2 whose repository has only versions for Spark 3, with the module by which a script uses them.
SPARK_PACKAGES: Mapping[str, str] = {"com.microsoft.ml.spark:mmlspark": "mmlspark"}

# Source: Docker Hub; the repositories of microsoft/ there were removed in 2020 (docker.com/blog, "Microsoft Container
# Registry"). nvidia/cuda keeps images for CUDA 11 and newer (support-policy.md of its repository, July 2023).
IMAGES: Mapping[str, str] = {
    "microsoft/mmlspark": "Spark 2, MMLSpark, CNTK, Java 8 and Python 3.5",
    "microsoft/cntk": "CNTK and Python 3.5",
}
NVIDIA_IMAGES = "nvidia/cuda"
NVIDIA_OLDEST_CUDA = 11
PLAIN_IMAGE = "docker.io/library/python:3.11-bookworm"
CUDA_IMAGE = "docker.io/nvidia/cuda:12.6.3-cudnn-runtime-ubuntu22.04"
# For a framework that finds its CUDA libraries in the image: by CUDA, newest first.
CUDA_IMAGES: Mapping[tuple[int, int], str] = {
    (11, 2): "docker.io/nvidia/cuda:11.2.2-cudnn8-runtime-ubuntu20.04",
    (10, 0): "docker.io/tensorflow/tensorflow:1.15.5-gpu",
}

# Source: "Tested build configurations" of https://www.tensorflow.org/install/source#gpu; the cards from the CUDA
# toolkit's release notes. Code of CUDA 11.2 is compiled again by the driver for generation 9 (Hopper Compatibility
# Guide); the libraries of CUDA 10 and older have no code for generation 8 and later. CNTK: the release notes of 2.5,
# 2.6 (CUDA 9.0) and 2.7 (CUDA 10.0); its wheels hold the CUDA libraries themselves.
GPU_BUILDS: tuple[GpuBuild, ...] = (
    GpuBuild("tensorflow", (1, 4), (8, 0), (3, 0), 6),
    GpuBuild("tensorflow", (1, 12), (9, 0), (3, 5), 7),
    GpuBuild("tensorflow", (2, 0), (10, 0), (3, 5), 7),
    GpuBuild("tensorflow", (2, 3), (10, 1), (3, 5), 7),
    GpuBuild("tensorflow", (2, 4), (11, 0), (3, 5), 9),
    GpuBuild("tensorflow", (2, 11), (11, 2), (3, 5), 9),
    GpuBuild("tensorflow", (2, 13), (11, 8), (3, 5), 9),
    GpuBuild("cntk", (2, 6), (9, 0), (3, 0), 7, bundled=True),
    GpuBuild("cntk", (2, 7), (10, 0), (3, 0), 7, bundled=True),
)

# Source: the release notes of each package for the version in which the module was removed.
MODULES: Mapping[str, DeadModule] = {
    "sklearn.cross_validation": DeadModule("scikit-learn", "0.20", "sklearn.model_selection"),
    "sklearn.grid_search": DeadModule("scikit-learn", "0.20", "sklearn.model_selection"),
    "sklearn.learning_curve": DeadModule("scikit-learn", "0.20", "sklearn.model_selection"),
    "sklearn.externals.joblib": DeadModule("scikit-learn", "0.23", "joblib"),
    "sklearn.externals.six": DeadModule("scikit-learn", "0.23", "six"),
    "sklearn.datasets.fetch_mldata": DeadModule("scikit-learn", "0.22", "sklearn.datasets.fetch_openml"),
    "sklearn.preprocessing.Imputer": DeadModule("scikit-learn", "0.22", "sklearn.impute.SimpleImputer"),
    "scipy.interp": DeadModule("scipy", "1.12", "numpy.interp"),
    "scipy.misc.imread": DeadModule("scipy", "1.2", "imageio.v2.imread"),
    "scipy.misc.imresize": DeadModule("scipy", "1.3", "PIL.Image.resize"),
    "scipy.misc.imsave": DeadModule("scipy", "1.2", "imageio.v2.imwrite"),
    "pandas.tools.plotting": DeadModule("pandas", "0.25", "pandas.plotting"),
    "pandas.io.data": DeadModule("pandas", "0.19", "the package pandas-datareader"),
    "tensorflow.examples.tutorials": DeadModule("tensorflow", "2", "keras.datasets"),
    "tensorflow.contrib": DeadModule("tensorflow", "2", "the package that took over the part of contrib"),
    "keras.utils.np_utils": DeadModule("keras", "2.13", "keras.utils.to_categorical"),
    "keras.layers.core": DeadModule("keras", "2.13", "keras.layers"),
    "keras.layers.convolutional": DeadModule("keras", "2.13", "keras.layers"),
    "keras.layers.normalization": DeadModule("keras", "2.13", "keras.layers"),
    "mmlspark": DeadModule("mmlspark", "", "synapse.ml (the package synapseml)"),
    "spark_sklearn": DeadModule("spark-sklearn", "", "joblibspark"),
    "revoscalepy": DeadModule("revoscalepy", "", "scikit-learn; revoscalepy was part of SQL Server"),
}
# What only scripts for TensorFlow 1 use (https://www.tensorflow.org/guide/migrate).
TENSORFLOW_1_NAMES = frozenset(
    {"Session", "InteractiveSession", "ConfigProto", "placeholder", "placeholder_with_default", "app", "flags"}
    | {"global_variables_initializer", "initialize_all_variables", "get_variable", "variable_scope", "layers"}
    | {"contrib", "examples", "reset_default_graph", "get_default_graph", "truncated_normal", "to_float", "to_int32"}
)
