# The controller, as `make controller` built it:
#
#   docker build -f build/controller.Dockerfile -t <registry>/multicluster-controller:<tag> .
FROM scratch
COPY bin/multicluster-controller /multicluster-controller
USER 65532:65532
ENTRYPOINT ["/multicluster-controller"]
