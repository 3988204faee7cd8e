# make run    build doublet and start the demo, data in ./data (ADDR=0.0.0.0: for other machines too; else on loopback)
# make test   the tests that need Go alone and little time; make test-long runs the others too
# The others: build check fuzz bench gen cross deb screens screenshots speed studies clean. Only Go is needed; make web, which builds the browser client
# anew where web/src was changed, needs Node.

SHELL := /bin/bash
GO ?= go
FUZZTIME ?= 10s
PLATFORMS := linux/arm64 darwin/arm64 windows/amd64
GENERATED := doc/protocols.md doc/config.md doc/rooms.md doc/replies.md doc/pictures/rooms.svg
GOFILES = $$(find . -name '*.go' -not -path './.git/*' -not -path '*/node_modules/*' -not -path './data/*')
BENCH ?= .
# RUN runs tests and prints their figures. In CI it measures processor time too; go then keeps no results of tests. Where they can,
# the tests are compiled as the program is, so that its packages are compiled once.
RUN = bin/run-tests $(if $(CI),-metered) -vet=off -trimpath
# RACE_PACKAGES start goroutines or share memory, in their code or tests: the race detector runs in them. It finds little in tests
# that run the built program, and in the simulation, of which a seed is one thread.
RACE_PACKAGES = $$(grep -rlE --include='*.go' --exclude-dir=node_modules '^\s*go (func|\w+[.(])|\.Go\(|sync\.(RW)?Mutex|atomic\.' . | \
	xargs -n1 dirname | grep -vE '^\./test/(attack|e2e|lab|peer/libraries|run|sim)$$' | sort -u)
# Folders with benchmarks, found by their functions.
BENCH_PACKAGES ?= $$(grep -rl --include='*_test.go' --exclude-dir=node_modules '^func Benchmark' . | xargs -r -n1 dirname | sort -u)

.PHONY: build run test check fuzz bench gen cross deb web web-check screens screenshots speed studies clean sim figures test-long test-race test-e2e

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
	LONG=1 EXTERNAL=required $(GO) test -count=1 -run '^TestScreens$$' ./test/e2e -update

# How quick the browser client is (Node, Chromium): medians and 95th percentiles; OUT=FILE keeps all samples.
speed: build
	npm --prefix test/e2e/web ci --no-fund --no-audit
	node test/e2e/web/speed.mjs

# The studies of doc/studies, measured on this machine, which should have nothing else to do: some hours. SHORT=1 takes under an hour:
# the short forms, six minutes of each. Again, or stopped, it goes on where it was. STUDIES selects them; guests and servers need root.
STUDIES ?= roles load replicators acknowledge partitions processors guests clients switches servers
studies: build
	@trap 'exit 130' INT; failed=; for s in $(STUDIES); do \
		case $$s in guests|servers) if [ $$(id -u) != 0 ]; then echo "$$s: left out, needs root"; continue; fi;; esac; \
		bin/doublet study run $$s --out studies/$$s$(if $(SHORT),-short --short --for 6m) --doc doc/studies || failed="$$failed $$s"; \
	done; if [ -n "$$failed" ]; then echo "without a report:$$failed (make studies goes on)"; exit 1; fi

# Whether web/dist is what web/src makes: it is built anew, and must be the same.
web-check: web
	@changed=$$(git status --porcelain -- web/dist); if [ -n "$$changed" ]; then echo "web/dist is not what web/src makes; run make web and commit:"; echo "$$changed"; exit 1; fi

.PHONY: bin/run-tests
bin/run-tests:
	$(GO) build -o $@ ./test/run

test: bin/run-tests
	CGO_ENABLED=0 $(RUN) -timeout 5m ./...

# All tests, the long ones (test/long) too, with the race detector where goroutines are.
test-long:
	$(MAKE) -k test-race test-e2e sim

test-race: bin/run-tests
	LONG=1 $(RUN) -timeout 20m -race $(RACE_PACKAGES)

# All packages that test-race leaves out: above all the built program, and programs of others against it.
test-e2e: bin/run-tests
	LONG=1 CGO_ENABLED=0 $(RUN) -timeout 36m $$(comm -13 <($(GO) list $(RACE_PACKAGES) | sort) <($(GO) list ./... | sort))

# The simulation of a cluster: SEEDS=2000 or SEEDS=500-900; SEED=17 runs one and shows its log; NOFOLDERS=1.
sim:
	$(if $(SEED),SEED=$(SEED),SEEDS=$(or $(SEEDS),1000)) $(GO) test -v -count=1 -timeout 0 -run '^TestSim$$' ./test/sim

check:
	@unformatted=$$(gofmt -l $(GOFILES)); if [ -n "$$unformatted" ]; then echo "gofmt -w these:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	$(GO) run ./cmd/figures -check
	$(MAKE) gen
	@if [ "$$CI" = true ] && git rev-parse --git-dir >/dev/null 2>&1; then \
		changed=$$(git status --porcelain -- $(GENERATED)); \
		if [ -n "$$changed" ]; then git --no-pager diff -- $(GENERATED); echo "not up to date, run make gen and commit:"; echo "$$changed"; exit 1; fi; \
	fi

gen:
	$(GO) run ./cmd/gen

# The figures that keep the code readable, beside their aims; their ceilings stand in cmd/figures/ceilings.
figures:
	$(GO) run ./cmd/figures

fuzz:
	.ci/fuzz $(FUZZTIME)

bench:
	@packages=$(BENCH_PACKAGES); if [ -n "$$packages" ]; then $(GO) test -run '^$$' -bench '$(BENCH)' -benchmem $$packages; fi
	@if [ -d "$${PEERBENCH:-../shared/peerbench}" ] && [ "$$(id -u)" = 0 ]; then \
		peer=; if command -v dovecot >/dev/null && command -v postfix >/dev/null; then peer=sdbox; fi; test/peer/compare doublet $$peer; \
	else echo "left out: the comparison with other servers (needs root and the driver's folder in PEERBENCH)"; fi
	@if command -v radicale >/dev/null; then LONG=1 $(GO) test -count=1 -v ./test/peer/caldav; \
	else echo "left out: the comparison with Radicale (needs the package radicale)"; fi

# Type-checks everything, tests too, for the platforms that make test does not run on.
cross:
	$(GO) run ./test/cross $(PLATFORMS)

# The Debian package, in bin/.
deb: build
	packaging/deb/build bin/doublet bin

clean:
	rm -rf bin
