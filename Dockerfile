# stint in a container: built and unit-tested in the first stage, run as an ordinary user in the
# second.
#
# The sample configuration listens on the loopback address, which nothing outside the container
# reaches: mount a file of your own over /etc/stint/stint.yaml, with `listen: 0.0.0.0:8380`, the
# ledger under /var/lib/stint, and a token_file where the admin address is not the loopback one.

FROM debian:trixie-slim AS build
RUN apt-get update \
	&& DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
		ca-certificates gcc libc6-dev make pkg-config libmicrohttpd-dev libcurl4-openssl-dev libuv1-dev \
		libsqlite3-dev libyaml-dev libjansson-dev libssl-dev libcmocka-dev \
	&& rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
ARG REVISION=unknown
RUN make -j"$(nproc)" REVISION="$REVISION" build/stint \
	&& make REVISION="$REVISION" unit \
	&& make REVISION="$REVISION" install DESTDIR=/image

FROM debian:trixie-slim
RUN apt-get update \
	&& DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
		libmicrohttpd12t64 libcurl4t64 libuv1t64 libsqlite3-0 libyaml-0-2 libjansson4 \
		libssl3t64 ca-certificates \
	&& rm -rf /var/lib/apt/lists/* \
	&& useradd --system --uid 10001 --user-group --no-create-home stint \
	&& install -d -o stint -g stint /var/lib/stint
COPY --from=build /image/usr/local/ /usr/local/
COPY deploy/stint.yaml /etc/stint/stint.yaml
USER stint
VOLUME /var/lib/stint
EXPOSE 8380 8381
ENTRYPOINT ["/usr/local/bin/stint"]
CMD ["serve", "-c", "/etc/stint/stint.yaml"]
