# Plimsoll. `make demo` shows what it does; `make test` holds it to what it promises.
#
# Needs Rust, a C compiler for linking, and make. CARGO_TARGET_DIR is honoured.

.POSIX:

CARGO = cargo
PLIMSOLL = $(CARGO) run --quiet --locked --release --package plimsoll-cli --bin plimsoll --

help:
	@echo "make demo     build it and run the main job: the first load of a metadirectory"
	@echo "make test     everything CI runs; installs what the tests need"
	@echo "make check    the fast part of it: format, lints, unit tests, arrows, tidy"
	@echo "make bench    measure against the peers"
	@echo "make bench-metadir  the metadirectory against COPY, bare inserts and bare adds"
	@echo "make bench-keycloak  the metadirectory against Keycloak's federation of LDAP"
	@echo "make bench-http  the HTTP engine against wrk, oha, ab, vegeta, k6 and h2load"
	@echo "make bench-ldap  the LDAP load against searchrate and the crate ldap3"
	@echo "make bench-wire  the analysis of a capture against tshark"
	@echo "make bench-gate      false alarms and misses of plimsoll gate"
	@echo "make bench-machines  agents beside a server, their coordinator, SSH, and kills"
	@echo "make bench-delay  the delay proxy against a direct connection and toxiproxy"
	@echo "make calibrate  how often the verdict is right: planted limits, and the metadirectory with SQLite, slapd, PostgreSQL"
	@echo "make build    the program, optimized"
	@echo "make package  a static executable, a Debian package, a container, checksums, a bill of materials: in target/package"

build:
	$(CARGO) build --locked --release --package plimsoll-cli

# A machine that was busy, so that nothing is certain, is no failure of the demo: it says so itself.
demo: build
	@$(PLIMSOLL) demo || { code=$$?; [ $$code -ge 97 ] && [ $$code -le 99 ]; }

test:
	@.ci/packages fio chromium nginx openssh-server openssh-client slapd bpftrace ldap-utils curl 389-ds-base samba samba-ad-provision samba-dsdb-modules postgresql tcpdump tshark \
		xvfb xterm x11-utils openbox python3-venv iproute2 prometheus-node-exporter xfsprogs btrfs-progs nats-server
	@.ci/scim-tester
	@.ci/mlrsearch
	@.ci/readers
	@.ci/kubernetes-validate
	@.ci/step "formatting" $(CARGO) fmt --all --check
	@.ci/step "lints" $(CARGO) clippy --quiet --locked --workspace --all-targets -- -D warnings
	@.ci/step "tests" .ci/tests $(CARGO) test --locked --workspace --no-fail-fast
	@.ci/step "arrows" $(CARGO) xtask arrows
	@.ci/step "licences" $(CARGO) xtask licences
	@.ci/step "tidy" $(CARGO) xtask tidy
	@.ci/step "cargo-deny" .ci/deny
	@.ci/step "examples" .ci/examples
	@.ci/skipped
	@echo "all of it passed"

check:
	@.ci/step "formatting" $(CARGO) fmt --all --check
	@.ci/step "lints" $(CARGO) clippy --quiet --locked --workspace --all-targets -- -D warnings
	@.ci/step "unit tests" .ci/tests $(CARGO) test --quiet --locked --workspace --lib --bins
	@.ci/step "arrows" $(CARGO) xtask arrows
	@.ci/step "tidy" $(CARGO) xtask tidy
	@.ci/skipped

package:
	@.ci/packages musl-tools lintian
	@.ci/step "package" $(CARGO) xtask package

calibrate:
	@.ci/packages iproute2 slapd postgresql
	$(CARGO) xtask calibrate

bench:
	@.ci/packages fio nginx wrk
	$(CARGO) xtask bench

bench-metadir:
	@.ci/packages postgresql slapd
	$(CARGO) bench --locked --package plimsoll-metadir --bench rates -- ratios --rounds 5
	$(CARGO) bench --locked --package plimsoll-metadir --bench rates -- flatness --objects 500000 --rounds 1
	$(CARGO) bench --locked --package plimsoll-metadir --bench rates -- flatness --objects 1000000 --rounds 1
	$(CARGO) bench --locked --package plimsoll-metadir --bench export
	$(CARGO) bench --locked --package plimsoll-metadir --bench delta

bench-http:
	@.ci/http-peers
	$(CARGO) xtask bench http

bench-ldap:
	@.ci/ldap-peers
	$(CARGO) xtask bench ldap trace
	$(CARGO) bench --locked --package plimsoll-people --bench ldif

bench-gate:
	$(CARGO) xtask bench gate

bench-machines:
	$(CARGO) xtask bench machines

bench-wire:
	@.ci/packages slapd tcpdump tshark
	$(CARGO) xtask bench wire

bench-delay:
	@.ci/toxiproxy
	PATH="$$PATH:$${CARGO_TARGET_DIR:-$$(pwd)/target}/toxiproxy" $(CARGO) bench --locked --package plimsoll-delay --bench proxy

bench-keycloak:
	@.ci/packages slapd postgresql curl
	@command -v mvn >/dev/null 2>&1 || .ci/packages maven
	$(CARGO) xtask bench keycloak

.PHONY: help build demo test check package calibrate bench bench-metadir bench-http bench-ldap bench-wire bench-gate bench-machines bench-delay bench-keycloak
