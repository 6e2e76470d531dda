# Two commands do everything on a fresh machine with Python 3.10+ and pip: make demo, make test.
PYTHON ?= python3
VENV := .venv
# Test processes, for two cores: a test waits for other processes about half of its time.
WORKERS ?= 4
BIN := $(VENV)/bin
# The part of the runner that lives on targets only; targets are Linux or macOS.
POSIX_ONLY := runner/(run|container|gpu|machine|data|cleanup)/|runner/(bootstrap|server|history/history_verb)\.py|builder/
# program=package: what tests, benches and soaks drive for real.
SSH_PACKAGES := ssh=openssh-client sshd=openssh-server ip=iproute2 iptables=iptables nsenter=util-linux
PACKAGES := $(SSH_PACKAGES) git=git zsh=zsh fish=fish tcsh=tcsh strace=strace faketime=faketime cc=gcc \
	/usr/include/stdlib.h=libc6-dev rsync=rsync dockerd=docker.io docker=docker-cli podman=podman runc=runc debootstrap=debootstrap \
	newuidmap=uidmap slirp4netns=slirp4netns /usr/lib/podman/netavark=netavark nft=nftables bindfs=bindfs less=less \
	man=man-db chromium=chromium java=default-jre-headless
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test smoke check fix bench soak golden docs site picture screens gpu-kit gpu-proof clean

demo: $(VENV)/.ready
	@$(BIN)/python tools/demo.py

test: check
	@sh tools/packages.sh $(PACKAGES)
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# The first steps of a newcomer, over SSH too; make test runs this and the demo in a fresh root (tools/fresh.sh).
smoke: $(VENV)/.ready
	@sh tools/packages.sh $(SSH_PACKAGES)
	$(BIN)/holdfast --version
	$(BIN)/python -m pytest -q tests/e2e/test_smoke.py tests/ssh/test_smoke.py

check: $(VENV)/.ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --platform linux
	$(BIN)/mypy --platform darwin
	$(BIN)/mypy --platform win32 src --exclude templates/ --exclude '$(POSIX_ONLY)'
	$(BIN)/lint-imports

fix: $(VENV)/.ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# make bench OLD=COMMIT compares that commit with the working tree and measures nothing else.
bench: $(VENV)/.ready
ifdef OLD
	$(BIN)/python bench/compare.py --old $(OLD)
else
	@sh tools/packages.sh $(PACKAGES)
	@[ -x .tools/dvc/bin/dvc ] || { $(BIN)/uv venv -q .tools/dvc && $(BIN)/uv pip install -q --python .tools/dvc/bin/python dvc==3.67.1; }
	@[ -x .tools/mlflow/bin/mlflow ] || { $(BIN)/uv venv -q .tools/mlflow && $(BIN)/uv pip install -q --python .tools/mlflow/bin/python mlflow==3.17.2; }
	PATH="$$PATH:$(CURDIR)/.tools/dvc/bin" $(BIN)/python bench/run.py
endif

soak: $(VENV)/.ready
	@sh tools/packages.sh $(PACKAGES)
	$(BIN)/python -m pytest -q tests/soak

golden: $(VENV)/.ready
	HOLDFAST_REWRITE_GOLDEN=1 $(BIN)/python -m pytest -q tests/golden tests/unit

docs: $(VENV)/.ready
	$(BIN)/python tools/docs.py

# The manual as a site with a search that works without a server; holdfast docs opens it.
site: $(VENV)/.ready
	@[ -x .tools/site/bin/mkdocs ] || $(BIN)/uv venv -q .tools/site
	@$(BIN)/uv pip install -q --python .tools/site/bin/python --group docs
	NO_MKDOCS_2_WARNING=1 .tools/site/bin/mkdocs build --strict # -q would hide the warnings, and what is hidden is not counted

picture: $(VENV)/.ready
	$(BIN)/python tools/transcript.py docs/demo.svg

screens: $(VENV)/.ready
	@sh tools/packages.sh chromium=chromium
	unshare --mount $(BIN)/python tools/screenshots.py

# On a machine with an NVIDIA GPU, as root, with PYTHON= one that has torch; .gpu/ is fetched first, here or elsewhere.
gpu-kit:
	sh tools/gpu_proof/kit.sh

gpu-proof:
	$(PYTHON) tools/gpu_proof/prove.py

$(VENV)/.ready: pyproject.toml tools/setup.sh
	PYTHON=$(PYTHON) sh tools/setup.sh $(VENV)
	@touch $@

clean:
	rm -rf $(VENV) .demo .bench .tools .gpu site
