# make run    build doublet and start the demo, data in ./data (ADDR=0.0.0.0: for other machines too; else on loopback)
# make test   every test (RACE=1 adds the race detector)
# The others: build check fuzz bench gen cross deb screens screenshots speed clean. Only Go is needed; make web, which builds the browser client
# anew where web/src was changed, needs Node.

SHELL := /bin/bash
GO ?= go
FUZZTIME ?= 10s
# Programs that some tests drive, and the Debian package of each. Where one is missing, its tests are skipped.
PROGRAMS := swaks:swaks msmtp:msmtp mutt:mutt neomutt:neomutt offlineimap:offlineimap3 mbsync:isync curl:curl python3:python3 /usr/bin/python3:python3 dovecot:dovecot-imapd fetchmail:fetchmail getmail:getmail6 slapd:slapd pebble:pebble pebble-challtestsrv:pebble dpkg-deb:dpkg lintian:lintian strip:binutils opendkim:opendkim systemd-analyze:systemd postfix:postfix rspamd:rspamd ip:iproute2 nft:nftables qemu-aarch64-static:qemu-user-static w3m:w3m lynx:lynx script:bsdutils node:nodejs chromium:chromium nginx:nginx /usr/lib/dovecot/lmtp:dovecot-lmtpd
PLATFORMS := linux/arm64 darwin/arm64 windows/amd64
GENERATED := doc/protocols.md doc/config.md doc/rooms.md doc/replies.md
GOFILES = $$(find . -name '*.go' -not -path './.git/*' -not -path '*/node_modules/*' -not -path './data/*')
BENCH ?= .
# Folders with benchmarks, found by their functions.
BENCH_PACKAGES ?= $$(grep -rl --include='*_test.go' --exclude-dir=node_modules '^func Benchmark' . | xargs -r -n1 dirname | sort -u)

.PHONY: build run test check fuzz bench gen cross deb web web-check screens screenshots speed clean sim

build:
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/doublet ./cmd/doublet

run: build
	bin/doublet demo --data ./data $(if $(ADDR),--addr $(ADDR))

# The built client is kept in web/dist, so that building the server needs no Node.
web:
	npm --prefix web ci --no-fund --no-audit
	npm --prefix web run build

# The pictures of the README, made anew from a demo (Node, Chromium, pngquant).
screenshots: build
	npm --prefix test/e2e/web ci --no-fund --no-audit
	node test/e2e/web/screenshots.mjs

# What the main screens have to look like (doc/look.md), kept anew as they look now (Node, Chromium): look at it before committing it.
screens:
	npm --prefix test/e2e/web ci --no-fund --no-audit
	EXTERNAL=required $(GO) test -count=1 -run '^TestScreens$$' ./test/e2e -update

# How quick the browser client is (Node, Chromium): medians and 95th percentiles; OUT=FILE keeps all samples.
speed: build
	npm --prefix test/e2e/web ci --no-fund --no-audit
	node test/e2e/web/speed.mjs

# Whether web/dist is what web/src makes: it is built anew, and must be the same.
web-check: web
	@changed=$$(git status --porcelain -- web/dist); if [ -n "$$changed" ]; then echo "web/dist is not what web/src makes; run make web and commit:"; echo "$$changed"; exit 1; fi

test:
	$(GO) test -timeout 20m $(if $(RACE),-race) ./...
	@missing=""; for p in $(PROGRAMS); do command -v "$${p%%:*}" >/dev/null || missing="$$missing $${p%%:*} (package $${p##*:})"; done; \
	if [ -n "$$missing" ]; then echo "skipped: the tests that need$$missing"; fi

# The simulation of a cluster: SEEDS=2000 or SEEDS=500-900; SEED=17 runs one and shows its log; NOFOLDERS=1.
sim:
	$(if $(SEED),SEED=$(SEED),SEEDS=$(or $(SEEDS),1000)) $(GO) test -v -count=1 -timeout 0 -run '^TestSim$$' ./test/sim

check:
	@unformatted=$$(gofmt -l $(GOFILES)); if [ -n "$$unformatted" ]; then echo "gofmt -w these:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	$(MAKE) gen
	@if [ "$$CI" = true ] && git rev-parse --git-dir >/dev/null 2>&1; then \
		changed=$$(git status --porcelain -- $(GENERATED)); \
		if [ -n "$$changed" ]; then git --no-pager diff -- $(GENERATED); echo "not up to date, run make gen and commit:"; echo "$$changed"; exit 1; fi; \
	fi

gen:
	$(GO) run ./cmd/gen

fuzz:
	.ci/fuzz $(FUZZTIME)

bench:
	@packages=$(BENCH_PACKAGES); if [ -n "$$packages" ]; then $(GO) test -run '^$$' -bench '$(BENCH)' -benchmem $$packages; fi
	@if [ -d "$${PEERBENCH:-../shared/peerbench}" ] && [ "$$(id -u)" = 0 ]; then \
		peer=; if command -v dovecot >/dev/null && command -v postfix >/dev/null; then peer=sdbox; fi; test/peer/compare doublet $$peer; \
	else echo "left out: the comparison with other servers (needs root and the driver's folder in PEERBENCH)"; fi

# Type-checks everything, tests too, for the platforms that make test does not run on.
cross:
	$(GO) run ./test/cross $(PLATFORMS)

# The Debian package, in bin/.
deb: build
	packaging/deb/build bin/doublet bin

clean:
	rm -rf bin
