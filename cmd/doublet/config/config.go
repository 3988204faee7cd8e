// Package config is what belongs to one machine: paths, doors, memory, limits. It stands in
// `doublet.toml` in the data folder; an environment variable goes over the file, a flag over
// both. What belongs to the domain (people, policies, quotas) is notes in the directory.
//
// The struct is the documentation: doc/config.md and `doublet config show` are made from its
// tags. `doc` says what a setting does, `default` its value for `serve`, `demo` its value for
// `doublet demo` where that is another one.
package config

// FileName is the configuration's name in the data folder.
const FileName = "doublet.toml"

// Off closes a door.
const Off = "off"

// Config is the whole configuration. Make one with Default or Demo, or by Load.
type Config struct {
	Server    Server    `toml:"server" doc:"Who this server is."`
	Data      Data      `toml:"data" doc:"Where things are on this machine."`
	Doors     Doors     `toml:"doors" doc:"Where the server listens. Each door is host:port, with an empty host for every address of the machine, or off. Every door also has a flag of its name."`
	TLS       TLS       `toml:"tls" doc:"The certificate that the doors show."`
	Limits    Limits    `toml:"limits" doc:"What one client, one message or everyone together may take."`
	Store     Store     `toml:"store" doc:"Memory and habits of the note store."`
	Directory Directory `toml:"directory" doc:"Looking up names and checking passwords."`
	Log       Log       `toml:"log" doc:"What the server says about itself, on standard error."`
}

// Server is the section [server].
type Server struct {
	Name   string `toml:"name" doc:"The server's host name, as it greets and as it stands in Received lines. Empty: what the machine calls itself." default:"" demo:"localhost"`
	Domain string `toml:"domain" doc:"The Internet domain of people whose address names none." default:"" demo:"example.com"`
}

// Data is the section [data].
type Data struct {
	Dir    string `toml:"dir" doc:"The data folder, for a file that --config names. A file that stands in a data folder is about that folder, wherever it is moved, and leaves this out. The flag --data goes over it, and decides where the file is looked for." default:"./data"`
	WALDir string `toml:"wal_dir" doc:"Folder of the transaction log, best on a device of its own. Empty: in the data folder." default:""`
}

// Doors is the section [doors].
type Doors struct {
	SMTP        string `toml:"smtp" doc:"Mail from other servers (RFC 5321)." default:":25" demo:"127.0.0.1:2525"`
	Submission  string `toml:"submission" doc:"Mail from people, STARTTLS (RFC 6409)." default:":587" demo:"127.0.0.1:2587"`
	Submissions string `toml:"submissions" doc:"Mail from people, TLS from the first byte (RFC 8314)." default:":465" demo:"off"`
	LMTP        string `toml:"lmtp" doc:"Local delivery, a reply per recipient (RFC 2033)." default:"off" demo:"127.0.0.1:2424"`
	IMAP        string `toml:"imap" doc:"Mail for programs, STARTTLS (RFC 9051, RFC 3501)." default:":143" demo:"127.0.0.1:2143"`
	IMAPS       string `toml:"imaps" doc:"Mail for programs, TLS from the first byte (RFC 8314)." default:":993" demo:"127.0.0.1:2993"`
	HTTP        string `toml:"http" doc:"What runs, /metrics and /healthz." default:":80" demo:"127.0.0.1:8080"`
}

// TLS is the section [tls].
type TLS struct {
	Certificate string `toml:"certificate" doc:"File with the certificate chain, PEM. Empty together with key: the server makes a self-signed one in the data folder." default:""`
	Key         string `toml:"key" doc:"File with the certificate's private key, PEM." default:""`
}

// Limits is the section [limits].
type Limits struct {
	MessageSize           Size `toml:"message_size" doc:"Greatest message, as it travels." default:"50MB" min:"64KB" max:"2GB"`
	Recipients            int  `toml:"recipients" doc:"Recipients of one message." default:"1000" min:"100" max:"100000"`
	Connections           int  `toml:"connections" doc:"Open connections of all doors together." default:"20000" min:"1" max:"1000000"`
	ConnectionsPerAddress int  `toml:"connections_per_address" doc:"Open connections from one address. Loopback is not counted." default:"200" min:"1" max:"1000000"`
	MIMEDepth             int  `toml:"mime_depth" doc:"How deep parts of a message may nest; what is deeper is kept as it is and not looked into." default:"100" min:"1" max:"100"`
	HeaderBytes           Size `toml:"header_bytes" doc:"How much of the header of a message or part is read; what lies beyond is kept as it is and not looked into." default:"1MB" min:"16KB" max:"1MB"`
}

// Store is the section [store].
type Store struct {
	CacheSize         Size     `toml:"cache_size" doc:"Buffer pool: the block cache of the storage engine." default:"256MB" demo:"64MB" min:"1MB" max:"1TB"`
	DBCacheEntries    int      `toml:"db_cache_entries" doc:"Databases that stay open in memory." default:"10000" min:"10" max:"10000000"`
	MemtableSize      Size     `toml:"memtable_size" doc:"Size of one memtable of the storage engine." default:"64MB" demo:"16MB" min:"1MB" max:"2GB"`
	WALSyncInterval   Duration `toml:"wal_sync_interval" doc:"Least time between two flushes of the transaction log; commits that arrive meanwhile share one." default:"500us" min:"0s" max:"100ms"`
	SpaceFloor        Size     `toml:"space_floor" doc:"Free space below which writes are refused (452, NO, 507) until there is room again; the greater of this and space_floor_percent holds." default:"1GB" demo:"100MB" min:"0B" max:"1TB"`
	SpaceFloorPercent int      `toml:"space_floor_percent" doc:"The same as a share of the device." default:"5" demo:"1" min:"0" max:"90"`
}

// Directory is the section [directory].
type Directory struct {
	NameCacheEntries int  `toml:"name_cache_entries" doc:"Resolved names that stay in memory." default:"100000" min:"100" max:"10000000"`
	Argon2Workers    int  `toml:"argon2_workers" doc:"Passwords checked at one time; each takes 19 MiB. 0: half of the processors, at least one." default:"0" min:"0" max:"1024"`
	SCRAM            bool `toml:"scram" doc:"Offer SCRAM-SHA-256 for signing in, and keep credentials for it with every password that is set from now on. Whoever has none yet must be given a new password before a mail program can use it, and app passwords do not work with it." default:"false" demo:"true"`
}

// Log is the section [log].
type Log struct {
	Level  string `toml:"level" doc:"The least important messages that are shown." default:"info" demo:"warn" oneof:"debug info warn error"`
	Format string `toml:"format" doc:"How a message is written." default:"text" oneof:"text json"`
}

// Default is the configuration of `doublet serve` where nothing is said.
func Default() Config { return preset("default") }

// Demo is the configuration of `doublet demo`: every door on loopback, on ports that need no
// privilege.
func Demo() Config { return preset("demo") }
