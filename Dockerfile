# Holdfast in a container; docs/howto/ci.md says how to use it.
#
#   docker build -t holdfast .
#   docker build -t holdfast:cuda --build-arg TORCH=cuda .    # run it with --gpus all
#   docker run --rm -v "$PWD:/work" --user "$(id -u):$(id -g)" holdfast audit zoo:digits-simclr --data digits
ARG PYTHON=3.12.11

FROM python:${PYTHON}-slim-bookworm AS build
ARG TORCH=cpu
ARG EXTRAS=torchvision,timm,hf,openclip,onnx,datasets,s3,pandas
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/holdfast
ENV PATH=/opt/holdfast/bin:$PATH
WORKDIR /source
# torch first: it is most of the image, and this layer stays while Holdfast changes.
COPY constraints.txt ./
RUN case "$TORCH" in \
      cpu) index=https://download.pytorch.org/whl/cpu ;; \
      cuda) index=https://pypi.org/simple ;; \
      *) echo "TORCH: expected cpu or cuda, got '$TORCH'" >&2; exit 2 ;; \
    esac \
    && pip install --index-url "$index" -c constraints.txt torch torchvision
COPY LICENSE README.md pyproject.toml ./
COPY recipes ./recipes
COPY src ./src
RUN pip install -c constraints.txt ".[$EXTRAS]"

FROM python:${PYTHON}-slim-bookworm
COPY --from=build /opt/holdfast /opt/holdfast
# Weights that are downloaded go to /cache, which anybody may write: mount a volume there to keep them.
RUN useradd --create-home --uid 1000 holdfast && mkdir /work /cache && chmod 1777 /work /cache
ENV PATH=/opt/holdfast/bin:$PATH \
    HF_HOME=/cache/huggingface TORCH_HOME=/cache/torch XDG_CACHE_HOME=/cache MPLCONFIGDIR=/cache/matplotlib \
    NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 1000
WORKDIR /work
ENTRYPOINT ["holdfast"]
CMD ["--help"]
