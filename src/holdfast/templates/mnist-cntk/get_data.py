"""Fetch the MNIST digits into data/mnist: python get_data.py [--mirror ADDRESS ...]

MNIST_MIRROR is the address of a mirror that is asked first. Each file is compared with its SHA-256.
"""

import argparse
import gzip
import hashlib
import os
import sys
import urllib.request

FILES = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist",
    "https://storage.googleapis.com/cvdf-datasets/mnist",
)
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "mnist")
MOST_BYTES = 64 << 20


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mirror", action="append", default=[], help="address of a folder with the files, or with .gz")
    parser.add_argument("--only-mirror", action="store_true", help="do not ask the public mirrors")
    args = parser.parse_args()
    own = [os.environ["MNIST_MIRROR"]] if os.environ.get("MNIST_MIRROR") else []
    mirrors = args.mirror + own + ([] if args.only_mirror else list(MIRRORS))
    os.makedirs(FOLDER, exist_ok=True)
    for name, digest in FILES.items():
        path = os.path.join(FOLDER, name)
        if os.path.exists(path):
            with open(path, "rb") as source:
                if hashlib.sha256(source.read()).hexdigest() == digest:
                    print(name, "is there")
                    continue
        content = fetch(name, digest, mirrors)
        with open(path + ".part", "wb") as target:
            target.write(content)
        os.replace(path + ".part", path)
        print(name, "fetched,", len(content), "bytes")


def fetch(name, digest, mirrors):
    """The file from the first mirror that has it as it must be."""
    answers = []
    for mirror in mirrors:
        for ending in (".gz", ""):
            address = "%s/%s%s" % (mirror.rstrip("/"), name, ending)
            try:
                with urllib.request.urlopen(address, timeout=60) as answer:
                    content = answer.read(MOST_BYTES)
                if ending:
                    content = gzip.decompress(content)
            except (OSError, EOFError, ValueError) as error:
                answers.append("%s: %s" % (address, error))
                continue
            if hashlib.sha256(content).hexdigest() == digest:
                return content
            answers.append("%s: another content than that of MNIST" % address)
    sys.exit(
        "no mirror has %s:\n  %s\nWithout a network, copy the four files of MNIST into %s,\n"
        "or name a mirror of your own: MNIST_MIRROR=http://HOST/mnist python get_data.py"
        % (name, "\n  ".join(answers), FOLDER)
    )


if __name__ == "__main__":
    main()
