# The controller, for those who have Docker; `make images` makes the same image without:
#
#   docker buildx build -f build/controller.Dockerfile --platform linux/amd64,linux/arm64 -t <registry>/multicluster-controller:<tag> \
#     --build-arg VERSION=$(git describe --tags --always --dirty --abbrev=12) --build-arg REVISION=$(git rev-parse HEAD) \
#     --build-arg CREATED=$(TZ=UTC git show -s --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd) .
#
# The Go release is here for both: `make images` reads it.
FROM --platform=$BUILDPLATFORM golang:1.26.8 AS build
WORKDIR /src
COPY . .
ARG TARGETOS TARGETARCH VERSION
RUN GOOS=$TARGETOS GOARCH=$TARGETARCH VERSION=$VERSION build/controller.sh /out/multicluster-controller

FROM scratch
ARG VERSION REVISION CREATED
LABEL org.opencontainers.image.title="The controller that carries Services between clusters" \
      org.opencontainers.image.version=$VERSION \
      org.opencontainers.image.revision=$REVISION \
      org.opencontainers.image.created=$CREATED \
      org.opencontainers.image.source=https://github.com/clusterset-dns/multicluster \
      org.opencontainers.image.licenses=Apache-2.0
COPY --from=build /out/multicluster-controller /multicluster-controller
COPY build/images/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
USER 65532:65532
WORKDIR /
ENTRYPOINT ["/multicluster-controller"]
