# MrTuner's command as an image, from a clone:
#   podman build -t mrtuner .        (make page, beforehand, puts the viewer's page in)
#   podman run --rm mrtuner --help
# BASE is any image with Python 3.11 or later, pip and useradd.
ARG BASE=docker.io/library/python:3.12-slim

FROM ${BASE} AS prepared
RUN useradd --uid 10001 --user-group --create-home mrtuner
# What the packages require: cached as long as only the source changes.
RUN pip install --no-cache-dir 'click>=8.1' 'msgspec>=0.20' 'platformdirs>=4' 'psycopg[binary]>=3.2' 'pyyaml>=6' 'rich>=13' 'duckdb>=1.5' 'boto3>=1.35' 'python-hcl2>=8'

# The source stays in this stage; what pip makes of it is all that a new commit pushes.
FROM prepared AS installed
COPY packages /src/packages
RUN pip install --no-cache-dir --no-deps --prefix /installed /src/packages/*

FROM prepared
COPY --from=installed /installed /usr/local
USER mrtuner
ENTRYPOINT ["mrtuner"]
