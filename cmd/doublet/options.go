package main

import (
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"doublet/admin"
	"doublet/client/dns"
	"doublet/cmd/doublet/config"
	"doublet/directory"
	"doublet/directory/password"
	"doublet/directory/session"
	"doublet/env"
	"doublet/groupware"
	"doublet/mail/journal"
	"doublet/mail/trace"
	"doublet/mail/verify"
	"doublet/mailbox"
	"doublet/stat"
	"doublet/store"
	"doublet/store/blob"
	"doublet/store/tier"
)

// release is the number of the release that this tree becomes.
const release = "0.1"

// version returns the release and, if the build recorded it, the commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return release
	}
	commit, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = "-" + s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+"
		}
	}
	return release + commit + dirty
}

func storeOptions(e *env.Env, cfg *config.Config, stats *stat.Tree) store.Options {
	keep := int64(cfg.Archive.Keep)
	if cfg.Archive.Target == "" {
		keep = 0
	}
	return store.Options{
		LogDir: cfg.Data.WALDir, IndexDir: cfg.Data.IndexDir, SegmentsDir: cfg.Data.SegmentsDir,
		CacheSize: int64(cfg.Store.CacheSize), MemTableSize: uint64(cfg.Store.MemtableSize),
		NoCompression: !cfg.Store.Compression, ObjectSize: int(cfg.Store.ObjectSize),
		// The store reads 0 as its default, but here the configured values hold, zero included.
		LogSyncInterval: max(cfg.Store.WALSyncInterval.Duration, 1), Databases: cfg.Store.DBCacheEntries,
		FloorBytes:   nonZero(int64(cfg.Store.SpaceFloor)),
		FloorPercent: int(nonZero(int64(cfg.Store.SpaceFloorPercent))),
		Indexes: slices.Concat(directory.Indexes(), session.Indexes(), trace.Indexes(), journal.Indexes(),
			mailbox.Indexes(), groupware.Indexes()),
		Stats:   stats,
		KeepLog: keep,
		OnFatal: func(err error) {
			e.Log.Error("transaction log failed, so nothing can be acknowledged: the process exits and recovers at "+
				"its next start", "error", err)
			os.Exit(exitFatal)
		},
	}
}

// patience and pause are the time limit and the interval of attempts to open the store. A process that was killed, or a
// verb that acts on the stopped store, releases its lock within moments.
const (
	patience = 3 * time.Second
	pause    = 50 * time.Millisecond
)

// openStore opens the store. If another process holds it and does not answer verbs, openStore retries for a while.
func openStore(e *env.Env, cfg *config.Config, stats *stat.Tree, ask func(*store.Options)) (*store.Store, error) {
	until := e.Clock.Now().Add(patience)
	tier, err := tierOptions(e, cfg)
	if err != nil {
		return nil, err
	}
	for {
		o := storeOptions(e, cfg, stats)
		o.Tier = tier
		if ask != nil {
			ask(&o)
		}
		s, err := store.Open(e, cfg.Data.Dir, o)
		if err == nil {
			return s, nil
		}
		err = openError(cfg, err)
		var exit *exitError
		if !errors.As(err, &exit) || exit.code != exitInUse || answers(e, cfg.Data.Dir) || e.Clock.Now().After(until) {
			return nil, err
		}
		e.Clock.Sleep(pause)
	}
}

// tierOptions returns the options of copies of segments, or nil if there are none.
func tierOptions(e *env.Env, cfg *config.Config) (*store.Tier, error) {
	if cfg.Data.SegmentsArchive == "" {
		return nil, nil
	}
	place, err := blob.Open(e, cfg.Data.SegmentsArchive)
	if err != nil {
		return nil, err
	}
	copier := func(e *env.Env, keys blob.Keys) store.Copier {
		return tier.New(e, place, keys, int64(cfg.Data.SegmentsRate))
	}
	return &store.Tier{Copier: copier, Cache: int64(cfg.Store.SegmentsCache)}, nil
}

func nonZero(n int64) int64 {
	if n == 0 {
		return -1
	}
	return n
}

func directoryOptions(cfg *config.Config, stats *stat.Tree) directory.Options {
	return directory.Options{Domain: cfg.Server.Domain, NameCache: cfg.Directory.NameCacheEntries,
		Scram: cfg.Directory.SCRAM, Private: !cfg.Directory.Lookup, Stats: stats}
}

func dnsOptions(cfg *config.Config, stats *stat.Tree) dns.Options {
	return dns.Options{
		Servers: strings.Fields(cfg.DNS.Servers), Trusted: strings.Fields(cfg.DNS.Trusted),
		Timeout: cfg.DNS.Timeout.Duration, CacheEntries: cfg.DNS.CacheEntries, Stats: stats,
	}
}

// publish returns the settings that concern public DNS.
func publish(cfg *config.Config) admin.Publish {
	return admin.Publish{
		DKIM: cfg.Sign.DKIM, MTASTS: cfg.Web.MTASTS, MTASTSAge: cfg.Web.MTASTSAge.Duration,
		MTASTSMX: strings.Fields(cfg.Web.MTASTSMX),
		ACME:     cfg.ACME.Enabled, Authority: cfg.ACME.Directory, Reports: cfg.Reports.Address,
	}
}

// verifyOptions returns the options of [verify]. Its words were checked when the settings were read.
func verifyOptions(cfg *config.Config, stats *stat.Tree) (verify.Options, error) {
	o := verify.Options{
		Hostname: cfg.Server.Name, Defer: cfg.Verify.Trouble == "defer",
		Blocklists:    strings.Fields(cfg.Verify.Blocklists),
		GreylistDelay: cfg.Verify.Greylist.Duration, GreylistEntries: cfg.Verify.GreylistEntries, Stats: stats,
		ARCTrusted: strings.Fields(cfg.Verify.ARCTrusted),
	}
	var err error
	for _, w := range []struct {
		to   *verify.Enforce
		word string
	}{{&o.DMARC, cfg.Verify.DMARC}, {&o.SPF, cfg.Verify.SPF}, {&o.Blocked, cfg.Verify.Blocked}} {
		if *w.to, err = verify.ParseEnforce(w.word); err != nil {
			return o, err
		}
	}
	o.Exempt, err = verify.ParseNetworks(cfg.Verify.Exempt)
	return o, err
}

// waitingSignIns is the number of sign-ins that may wait for the password pool.
const waitingSignIns = 1000

func passwords(e *env.Env, cfg *config.Config) *password.Pool {
	workers := cfg.Directory.Argon2Workers
	if workers == 0 {
		workers = max(1, runtime.NumCPU()/2)
	}
	return password.New(e, workers, waitingSignIns)
}

// inc adds the counts of doors to the tree of statistics. A count that can fall is a gauge.
type inc struct {
	stats *stat.Tree
	trans *stat.Rate
}

func newInc(stats *stat.Tree) inc { return inc{stats, stats.Rate("Server.Trans", "transactions")} }

// Inc implements the doors' Stats.
func (i inc) Inc(name string, n int64) {
	switch {
	case strings.HasSuffix(name, ".Active"):
		i.stats.Gauge(name, "sessions open").Add(n)
	case n > 0:
		i.stats.Counter(name, "").Add(uint64(n))
		if strings.HasSuffix(name, ".Commands") {
			i.trans.Add(uint64(n))
		}
	}
}
