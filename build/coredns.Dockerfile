# CoreDNS with the plugin, for those who have Docker; `make images` makes the same image without:
#
#   docker buildx build -f build/coredns.Dockerfile --platform linux/amd64,linux/arm64 -t <registry>/coredns:<tag> \
#     --build-arg VERSION=$(git describe --tags --always --dirty --abbrev=12) --build-arg REVISION=$(git rev-parse HEAD) \
#     --build-arg CREATED=$(TZ=UTC git show -s --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd) .
FROM --platform=$BUILDPLATFORM golang:1.26.8 AS build
RUN apt-get -q update && apt-get -q install --yes --no-install-recommends libcap2-bin
WORKDIR /src
COPY . .
ARG TARGETOS TARGETARCH VERSION COREDNS_VERSION=v1.15.0
# Not +ep: build/netbind says why.
RUN GOOS=$TARGETOS GOARCH=$TARGETARCH VERSION=$VERSION build/coredns.sh $COREDNS_VERSION /out/coredns && \
    setcap cap_net_bind_service=+p /out/coredns

FROM scratch
ARG VERSION REVISION CREATED
LABEL org.opencontainers.image.title="CoreDNS with the plugin multicluster" \
      org.opencontainers.image.version=$VERSION \
      org.opencontainers.image.revision=$REVISION \
      org.opencontainers.image.created=$CREATED \
      org.opencontainers.image.source=https://github.com/clusterset-dns/multicluster \
      org.opencontainers.image.licenses=Apache-2.0
COPY --from=build /out/coredns /coredns
COPY build/images/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
USER 65532:65532
WORKDIR /
EXPOSE 53/tcp 53/udp
ENTRYPOINT ["/coredns"]
