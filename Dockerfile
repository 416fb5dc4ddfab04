# syntax=docker/dockerfile:1
# The program, static, in an image with nothing else:
#   docker buildx build --platform linux/amd64,linux/arm64 --tag REPOSITORY:TAG .
# All is compiled on the architecture of the machine that builds; zig is C compiler and linker for either. Dependencies are
# a layer of their own, which stays until Cargo.lock or a manifest changes.

FROM --platform=$BUILDPLATFORM docker.io/library/rust:1.95-bookworm AS tools
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3-pip \
    && rm -rf /var/lib/apt/lists/* \
    && pip install --no-cache-dir --break-system-packages ziglang==0.15.2 cargo-zigbuild==0.24.0 \
    && cargo install --locked cargo-chef@0.1.78
WORKDIR /src

# What the dependencies are, without the code that uses them.
FROM tools AS plan
COPY . .
RUN cargo chef prepare --recipe-path recipe.json

FROM tools AS build
ARG TARGETARCH
RUN case "$TARGETARCH" in \
        amd64) target=x86_64-unknown-linux-musl ;; \
        arm64) target=aarch64-unknown-linux-musl ;; \
        *) echo "no image for $TARGETARCH: amd64 and arm64 are known" >&2; exit 1 ;; \
    esac \
    && rustup target add "$target" \
    && echo "$target" >/target
# Names of functions stay, for the report of a panic; the tables of lines are most of the file.
ENV CARGO_PROFILE_RELEASE_DEBUG=false CARGO_PROFILE_RELEASE_STRIP=none
COPY --from=plan /src/recipe.json .
RUN cargo chef cook --locked --release --zigbuild --target "$(cat /target)" --package portcullis --recipe-path recipe.json
COPY . .
RUN cargo zigbuild --locked --release --target "$(cat /target)" --package portcullis \
    && install -m 0555 "target/$(cat /target)/release/portcullis" /portcullis

FROM scratch
COPY --from=build /portcullis /portcullis
USER 65532:65532
ENTRYPOINT ["/portcullis"]
