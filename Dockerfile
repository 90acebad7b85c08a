# syntax=docker/dockerfile:1

# Two stages, so that the image that runs has no compiler, no pip cache and no source tree: less to patch, less to abuse.
# Build:  docker build -t llm-phase-sidecar .
# Run:    docker run --rm -p 8900:8900 -p 9901:9901 llm-phase-sidecar --engine.url=http://engine:8000

# --- wheels: the project and its dependencies, built once, here ------------------------------------------------------
FROM python:3.12-slim AS wheels

WORKDIR /source
# pyproject.toml first would save little: hatchling reads the version from the package, so both change together.
COPY pyproject.toml README.md LICENSE ./
COPY sidecar sidecar
# uvloop, httptools, msgspec and the others come as wheels for amd64 and arm64; should one not, this stage fails and says so,
# instead of a compiler being installed on the quiet. With gRPC: nobody can add it later, and engines that speak nothing else are common.
RUN pip wheel --no-cache-dir --only-binary=:all: --no-binary=llm-phase-sidecar --wheel-dir /wheels '.[grpc]'

# --- the image that runs -------------------------------------------------------------------------------------------
FROM python:3.12-slim

LABEL org.opencontainers.image.title="llm-phase-sidecar" \
      org.opencontainers.image.description="Splits the latency of LLM requests into queue, prefill, first token, decode and stream" \
      org.opencontainers.image.licenses="Apache-2.0"

# --no-index: what runs is what the first stage built and nothing fetched since. The wheels are mounted, not copied: no layer holds them.
# pip goes once it has done its work, and with it the way to install something into a running container.
RUN --mount=type=bind,from=wheels,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index /wheels/*.whl \
    && pip uninstall --yes pip

# Numeric, so that Kubernetes can see that it is not root (runAsNonRoot compares numbers); no home, no shell needed.
# The sidecar writes no file: the root file system may be read-only.
USER 65532:65532
WORKDIR /

# Unbuffered: the last log lines before a crash are the ones that matter. No bytecode: pip has compiled it, and there is nowhere to write it.
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1

# 8900: traffic, in front of the engine. 9901: /metrics, /-/ready and the status page; not for clients.
EXPOSE 8900 9901

# Exec form: the sidecar is process 1 and gets SIGTERM itself, so that it drains instead of being killed with its streams.
ENTRYPOINT ["sidecar", "serve"]
