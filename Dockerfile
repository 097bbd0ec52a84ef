# A service of a model folder: docker build -t fewnode . && docker run -p 127.0.0.1:8000:8000 -v ./model:/model \
#   -v ./token:/run/secrets/token:ro fewnode
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src ./src
# PyTorch without CUDA is smaller by gigabytes: name the index that has it with --build-arg PIP_EXTRA_INDEX_URL=...
ARG PIP_EXTRA_INDEX_URL
RUN python -m venv /opt/fewnode \
 && /opt/fewnode/bin/pip install --no-cache-dir --constraint constraints.txt '.[serve]'

FROM python:3.12-slim
RUN useradd --create-home --uid 10001 fewnode
COPY --from=build /opt/fewnode /opt/fewnode
ENV PATH=/opt/fewnode/bin:$PATH PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1
USER fewnode
VOLUME /model
EXPOSE 8000
HEALTHCHECK --start-period=30s --interval=15s --timeout=3s CMD \
  ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/readyz', timeout=2)"]
ENTRYPOINT ["fewnode", "serve", "/model", "--host", "0.0.0.0", "--token-file", "/run/secrets/token"]
CMD ["--workers", "1"]
