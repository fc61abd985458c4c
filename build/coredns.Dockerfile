# CoreDNS with the plugin, as `make coredns` built it:
#
#   docker build -f build/coredns.Dockerfile -t <registry>/coredns:<tag> .
#
# It holds no certificates: the API server's come with the pod's account. For forwarding over TLS to the outside, mount some.
FROM scratch
COPY bin/coredns /coredns
USER 65532:65532
EXPOSE 53/udp 53/tcp
ENTRYPOINT ["/coredns"]
