# One image for all commands: serve (the default), ui, up, demo, history (Spark jobs), and the rest of the command line.
FROM python:3.13-slim-bookworm AS build
WORKDIR /src
RUN python -m venv /opt/controlplane
ENV PATH=/opt/controlplane/bin:$PATH PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
# The lock files first: a change of the code then leaves this layer, by far the largest, cached.
COPY requirements ./requirements
RUN pip install --require-hashes --only-binary :all: -r requirements/build.txt \
 && pip install --require-hashes --no-build-isolation -r requirements/image.txt
COPY pyproject.toml README.md LICENSE ./
COPY alerts ./alerts
COPY controlplane ./controlplane
COPY listeners ./listeners
COPY ui ./ui
COPY packaging ./packaging
RUN pip install --no-deps --no-build-isolation .

FROM python:3.13-slim-bookworm
# Java only for the commands that start Spark (demo and the jobs); the server itself never does.
RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --create-home controlplane \
 && install -d -o 10001 -g 10001 -m 0700 /data /lake
COPY --from=build /opt/controlplane /opt/controlplane
ENV PATH=/opt/controlplane/bin:$PATH CONTROLPLANE_DATA_DIR=/data PYTHONUNBUFFERED=1
USER 10001
WORKDIR /home/controlplane
VOLUME /data
EXPOSE 8420 8501
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
  CMD python -c "import urllib.request as u; u.urlopen('http://127.0.0.1:8420/healthz', timeout=4)"
ENTRYPOINT ["controlplane"]
CMD ["serve", "--host", "0.0.0.0"]
