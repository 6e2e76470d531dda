# The command line in a container:
#   docker build -t holdfast .
#   docker run --rm -it -v "$PWD:/work" -v ~/.holdfast:/root/.holdfast -v ~/.ssh:/root/.ssh:ro holdfast runs
# BASE is any Debian or Ubuntu image with Python 3.10 or newer and its venv module.
ARG BASE=python:3.12-slim
FROM ${BASE} AS build
COPY . /src
RUN python3 -m venv /opt/holdfast && /opt/holdfast/bin/pip install --no-cache-dir /src

FROM ${BASE}
RUN apt-get update && apt-get install -y --no-install-recommends openssh-client && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/holdfast /opt/holdfast
RUN ln -s /opt/holdfast/bin/holdfast /usr/local/bin/holdfast
WORKDIR /work
ENTRYPOINT ["holdfast"]
