# One image for all commands: serve (the default), ui, up, demo, history (Spark jobs), and the rest of the command line.
# It runs as user 10001 with a read-only root file system; /data, /lake and /tmp are what it writes.
# A release names the base by digest: --build-arg BASE=docker.io/library/python:3.13-slim-bookworm@sha256:…
# (RELEASING.md). Another base needs Debian's apt-get, and python 3.11 or newer with venv.
# LOCK=server leaves out Spark and Java, and with them demo, run and the history jobs: less than half of the size.
ARG BASE=docker.io/library/python:3.13-slim-bookworm
FROM ${BASE} AS build
ARG LOCK=image
WORKDIR /src
RUN python -m venv /opt/controlplane
ENV PATH=/opt/controlplane/bin:$PATH PIP_DISABLE_PIP_VERSION_CHECK=1
# The lock files first: a change of the code then leaves this layer, by far the largest, cached.
COPY requirements ./requirements
RUN pip install --require-hashes --only-binary :all: -r requirements/build.txt \
 && pip install --require-hashes --no-build-isolation -r requirements/${LOCK}.txt
COPY pyproject.toml README.md LICENSE ./
COPY alerts ./alerts
COPY controlplane ./controlplane
COPY listeners ./listeners
COPY ui ./ui
COPY packaging ./packaging
RUN pip install --no-deps --no-build-isolation .

FROM ${BASE}
ARG LOCK=image
# Java only for the commands that start Spark (demo and the jobs); the server itself never does.
RUN if [ "$LOCK" = image ]; then apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/*; fi \
 && useradd --uid 10001 --no-create-home controlplane \
 && install -d -o 10001 -g 10001 -m 0700 /data /lake
COPY --from=build /opt/controlplane /opt/controlplane
# HOME is where Streamlit and Spark's Ivy would write; the root file system may be read-only.
ENV PATH=/opt/controlplane/bin:$PATH CONTROLPLANE_DATA_DIR=/data PYTHONUNBUFFERED=1 HOME=/tmp
USER 10001
WORKDIR /tmp
VOLUME ["/data", "/lake"]
EXPOSE 8420 8501
HEALTHCHECK --interval=30s --timeout=15s --start-period=30s \
  CMD ["python", "-m", "spark_controlplane_server.runtime.container_health"]
ENTRYPOINT ["controlplane"]
CMD ["serve", "--host", "0.0.0.0"]
