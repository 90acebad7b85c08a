# syntax=docker/dockerfile:1

# Two stages: the image that runs has no compiler, no pip cache and no source tree, so there is less to patch and to abuse.
# Build:  docker build -t llm-phase-sidecar .
# Run:    docker run --rm -p 8900:8900 -p 9901:9901 llm-phase-sidecar --engine.url=http://engine:8000

# The image's Python: requirements.lock has its wheels, and the wheel of the sidecar is built and proved with it (CONTRIBUTING.md).
ARG PYTHON=3.11
# Another base of that Python, such as your registry's copy: it has `python`, `pip` and Python's headers.
ARG BASE=python:${PYTHON}-slim-bookworm

# --- wheels: the project and its dependencies ------------------------------------------------------------------------
FROM ${BASE} AS wheels

WORKDIR /source
# Only wheels that requirements.lock names with their hashes come in: a package that was replaced in the index, or a release that the
# tests never saw, stops the build here. `make lock` renews the lock. The compiler is for the sidecar alone: uvloop, httptools, msgspec
# and the others have wheels for amd64 and arm64.
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev
COPY requirements.lock ./
RUN pip download --no-cache-dir --only-binary=:all: --require-hashes --dest /locked --requirement requirements.lock

# One copy of all: hatchling reads the version from the package, so a separate layer for pyproject.toml would save little.
COPY pyproject.toml hatch_build.py README.md LICENSE Dockerfile ./
COPY tools/wheels.py tools/wheels.py
COPY sidecar sidecar
# The wheel carries rules, routes, dashboards and manifests: `sidecar export` writes them from the image too.
COPY alert_rules alert_rules
COPY grafana grafana
COPY deploy deploy
# --no-index: what the build needs comes from the locked wheels, the dependencies among it, whose types mypyc reads. `make wheels`
# runs the same script with the same packages, and the proofs run on what it makes. The extra gRPC is included, because it cannot be
# added to the image later and some engines export by gRPC only.
RUN pip install --no-cache-dir --no-index /locked/*.whl \
    && python tools/wheels.py compiled /built \
    && pip wheel --no-cache-dir --no-index --find-links /locked --wheel-dir /wheels "$(echo /built/*.whl)[grpc]"

# --- the image that runs -------------------------------------------------------------------------------------------
FROM ${BASE}

LABEL org.opencontainers.image.title="llm-phase-sidecar" \
      org.opencontainers.image.description="Splits the latency of LLM requests into queue, prefill, first token, decode and stream" \
      org.opencontainers.image.licenses="Apache-2.0"

# --no-index: only wheels of the first stage are installed. They are mounted, not copied, so no layer contains them. pip is
# removed afterwards, so nothing can be installed into a running container. pip's byte code would bear the time of its source, and differ
# in each build: this one bears a hash, which nothing compares, because no source changes in an image.
RUN --mount=type=bind,from=wheels,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-compile --no-index /wheels/*.whl \
    && pip uninstall --yes pip \
    && python -m compileall -q --invalidation-mode unchecked-hash "$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"

# The user is a number, because runAsNonRoot of Kubernetes compares numbers. It needs neither a home nor a shell.
# The sidecar writes no file, so the root file system may be read-only.
USER 65532:65532
WORKDIR /

# Unbuffered, so that the last log lines before a crash are not lost. No byte code is written: it is there, and the file
# system may be read-only.
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1

# 8900: traffic, in front of the engine. 9901: /metrics, /-/ready and the status page; not for clients.
EXPOSE 8900 9901

# Exec form: the sidecar is process 1 and gets SIGTERM itself. It then drains instead of being killed with its streams.
ENTRYPOINT ["sidecar", "serve"]
