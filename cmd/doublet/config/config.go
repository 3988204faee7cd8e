// Package config holds the settings of one machine: paths, listeners, memory, limits. They are read from `doublet.toml`
// in the data folder; an environment variable overrides the file, a flag overrides both. The settings of a domain
// (people, policies, quotas) are notes in the directory, not here.
//
// doc/config.md and `doublet config show` are generated from the struct and from the descriptions in settings.txt. Tag
// `default` holds a setting's value for `serve`, and `demo` its value for `doublet demo` where that differs.
package config

// FileName is the name of the configuration file in the data folder.
const FileName = "doublet.toml"

// Off is the address of a door (a listener) that is closed.
const Off = "off"

// Config holds all settings. Default, Demo and Load return one.
type Config struct {
	Server    Server    `toml:"server"`
	Data      Data      `toml:"data"`
	Archive   Archive   `toml:"archive"`
	Doors     Doors     `toml:"doors"`
	Web       Web       `toml:"web"`
	JMAP      JMAP      `toml:"jmap"`
	Push      Push      `toml:"push"`
	TLS       TLS       `toml:"tls"`
	ACME      ACME      `toml:"acme"`
	Limits    Limits    `toml:"limits"`
	Store     Store     `toml:"store"`
	Search    Search    `toml:"search"`
	Directory Directory `toml:"directory"`
	LDAP      LDAP      `toml:"ldap"`
	Verify    Verify    `toml:"verify"`
	Filter    Filter    `toml:"filter"`
	Junk      Junk      `toml:"junk"`
	Reports   Reports   `toml:"reports"`
	Sign      Sign      `toml:"sign"`
	Mail      Mail      `toml:"mail"`
	Router    Router    `toml:"router"`
	Journal   Journal   `toml:"journal"`
	DNS       DNS       `toml:"dns"`
	Cluster   Cluster   `toml:"cluster"`
	Replica   Replica   `toml:"replica"`
	OAuth     OAuth     `toml:"oauth"`
	Tasks     Tasks     `toml:"tasks"`
	Probes    Probes    `toml:"probes"`
	Log       Log       `toml:"log"`
}

// Server is the section [server].
type Server struct {
	Name   string `toml:"name" default:"" demo:"localhost"`
	Domain string `toml:"domain" default:"" demo:"example.com"`
	// Proxies applies to every door.
	Proxies string `toml:"proxies" default:""`
	// Memory is the bound of the whole process; see Within.
	Memory Size `toml:"memory" default:"0B" min:"0B" max:"16TB"`
}

// Data is the section [data].
type Data struct {
	Dir         string `toml:"dir" default:"./data"`
	WALDir      string `toml:"wal_dir" default:""`
	IndexDir    string `toml:"index_dir" default:""`
	SegmentsDir string `toml:"segments_dir" default:""`
	// SegmentsArchive has copies of full segments; empty means that there are none.
	SegmentsArchive string `toml:"segments_archive" default:""`
	SegmentsRate    Size   `toml:"segments_rate" default:"20MB" min:"0B" max:"1TB"`
	BackupDir       string `toml:"backup_dir" default:""`
	BackupRate      Size   `toml:"backup_rate" default:"0B" min:"0B" max:"1TB"`
	BackupCheck     string `toml:"backup_check" default:"open" oneof:"off open full"`
	// BackupRecipient and BackupKeep apply to the archive and its backups, too.
	BackupRecipient string `toml:"backup_recipient" default:""`
	BackupKeep      string `toml:"backup_keep" default:""`
	// EncryptionKeyFile holds the keys of encryption at rest; empty means that files are not encrypted.
	EncryptionKeyFile string `toml:"encryption_key_file" default:""`
	EncryptionRate    Size   `toml:"encryption_rate" default:"20MB" min:"0B" max:"1TB"`
}

// Archive is the section [archive].
type Archive struct {
	Target    string   `toml:"target" default:""`
	Interval  Duration `toml:"interval" default:"3s" min:"100ms" max:"1h"`
	Keep      Size     `toml:"keep" default:"4GB" min:"16MB" max:"16TB"`
	Rate      Size     `toml:"rate" default:"0B" min:"0B" max:"1TB"`
	BaseEvery Duration `toml:"base_every" default:"24h" min:"10m" max:"2400h"`
}

// Doors is the section [doors].
type Doors struct {
	SMTP        string `toml:"smtp" default:":25" demo:"127.0.0.1:2525"`
	Submission  string `toml:"submission" default:":587" demo:"127.0.0.1:2587"`
	Submissions string `toml:"submissions" default:":465" demo:"off"`
	LMTP        string `toml:"lmtp" default:"off" demo:"127.0.0.1:2424"`
	IMAP        string `toml:"imap" default:":143" demo:"127.0.0.1:2143"`
	IMAPS       string `toml:"imaps" default:":993" demo:"127.0.0.1:2993"`
	POP3        string `toml:"pop3" default:"off" demo:"127.0.0.1:2110"`
	POP3S       string `toml:"pop3s" default:"off" demo:"off"`
	Sieve       string `toml:"sieve" default:":4190" demo:"127.0.0.1:4190"`
	LDAP        string `toml:"ldap" default:"off" demo:"127.0.0.1:2389"`
	LDAPS       string `toml:"ldaps" default:"off" demo:"off"`
	HTTP        string `toml:"http" default:":80" demo:"127.0.0.1:8080"`
	HTTPS       string `toml:"https" default:":443" demo:"127.0.0.1:8443"`
}

// Web is the section [web].
type Web struct {
	URL      string `toml:"url" default:""`
	Monitors string `toml:"monitors" default:"127.0.0.0/8 ::1"`
	// Proxies and ProxyHeader apply to the doors http and https only.
	Proxies     string   `toml:"proxies" default:""`
	ProxyHeader string   `toml:"proxy_header" default:"X-Forwarded-For" oneof:"X-Forwarded-For X-Real-IP Forwarded"`
	Redirect    bool     `toml:"redirect" default:"true" demo:"false"`
	HSTS        Duration `toml:"hsts" default:"4320h" demo:"0s" min:"0s" max:"17520h"`
	MTASTS      string   `toml:"mta_sts" default:"testing" oneof:"off none testing enforce"`
	MTASTSAge   Duration `toml:"mta_sts_age" default:"168h" min:"1h" max:"8760h"`
	MTASTSMX    string   `toml:"mta_sts_mx" default:""`
	// SessionIdle and the settings below apply to browser sessions.
	SessionIdle Duration `toml:"session_idle" default:"336h" min:"1m" max:"8760h"`
	SessionLife Duration `toml:"session_life" default:"2160h" min:"1m" max:"8760h"`
	Passkeys    bool     `toml:"passkeys" default:"true"`
	// AdminFrom and AdminFresh apply to administrators who use a browser.
	AdminFrom  string   `toml:"admin_from" default:"0.0.0.0/0 ::/0"`
	AdminFresh Duration `toml:"admin_fresh" default:"1h" min:"0s" max:"8760h"`
	AdminReach string   `toml:"admin_reach" default:""`
	Logos      bool     `toml:"sender_logos" default:"false"`
	Sessions   int      `toml:"sessions_per_person" default:"50" min:"1" max:"1000"`
}

// Push is the section [push].
type Push struct {
	PerPerson int      `toml:"connections_per_person" default:"100" min:"1" max:"100000"`
	Web       bool     `toml:"web" default:"true"`
	Life      Duration `toml:"subscription_life" default:"720h" min:"48h" max:"8760h"`
	PerDevice int      `toml:"subscriptions_per_person" default:"50" min:"1" max:"1000"`
	Private   string   `toml:"private" default:""`
	Contact   string   `toml:"contact" default:""`
}

// JMAP is the section [jmap].
type JMAP struct {
	Request            Size `toml:"request_size" default:"10MB" min:"1MB" max:"50MB"`
	Calls              int  `toml:"calls_per_request" default:"64" min:"16" max:"1000"`
	ObjectsInGet       int  `toml:"objects_in_get" default:"1000" min:"100" max:"10000"`
	ObjectsInSet       int  `toml:"objects_in_set" default:"1000" min:"100" max:"10000"`
	ConcurrentRequests int  `toml:"requests_at_once" default:"8" min:"1" max:"100"`
	ConcurrentUploads  int  `toml:"uploads_at_once" default:"4" min:"1" max:"100"`
	Uploads            Size `toml:"waiting_uploads" default:"200MB" min:"10MB" max:"10GB"`
}

// TLS is the section [tls].
type TLS struct {
	Certificate string `toml:"certificate" default:""`
	Key         string `toml:"key" default:""`
	Folder      string `toml:"folder" default:""`
	// WarnBefore applies to every certificate: from files, from ACME, self-signed.
	WarnBefore Duration `toml:"warn_before" default:"336h" min:"1h" max:"8760h"`
}

// ACME is the section [acme].
type ACME struct {
	Enabled    bool   `toml:"enabled" default:"false"`
	Directory  string `toml:"directory" default:"https://acme-v02.api.letsencrypt.org/directory"`
	Email      string `toml:"email" default:""`
	Names      string `toml:"names" default:"mta-sts autoconfig autodiscover"`
	Challenges string `toml:"challenges" default:"http-01 tls-alpn-01"`
	DNSCommand string `toml:"dns_command" default:""`
	Root       string `toml:"root" default:""`
	KeyID      string `toml:"key_id" default:""`
	MACKey     string `toml:"mac_key" default:"" secret:"true"`
}

// Limits is the section [limits].
type Limits struct {
	MessageSize           Size     `toml:"message_size" default:"50MB" min:"64KB" max:"2GB"`
	Recipients            int      `toml:"recipients" default:"1000" min:"100" max:"100000"`
	Connections           int      `toml:"connections" default:"20000" min:"1" max:"1000000"`
	CompressedConnections int      `toml:"compressed_connections" default:"5000" min:"1" max:"1000000"`
	ConnectionsPerAddress int      `toml:"connections_per_address" default:"200" min:"1" max:"1000000"`
	SessionsPerPerson     int      `toml:"sessions_per_person" default:"100" min:"0" max:"1000000"`
	Users                 int      `toml:"users" default:"0" min:"0" max:"10000000"`
	Transactions          int      `toml:"transactions" default:"5000" min:"0" max:"1000000"`
	MessageMemory         Size     `toml:"message_memory" default:"256MB" min:"4MB" max:"1TB"`
	MessageMemoryShare    int      `toml:"message_memory_share" default:"50" min:"1" max:"100"`
	IdleTimeout           Duration `toml:"idle_timeout" default:"30m" min:"1m" max:"24h"`
	CommandTimeout        Duration `toml:"command_timeout" default:"5m" min:"10s" max:"1h"`
	NotifyMailboxes       int      `toml:"notify_mailboxes" default:"200000" min:"100" max:"100000000"`
	DataTimeout           Duration `toml:"data_timeout" default:"3m" min:"10s" max:"1h"`
	LoginTimeout          Duration `toml:"login_timeout" default:"3m" min:"10s" max:"1h"`
	HandshakeTimeout      Duration `toml:"handshake_timeout" default:"30s" min:"1s" max:"5m"`
	MIMEDepth             int      `toml:"mime_depth" default:"100" min:"1" max:"100"`
	HeaderBytes           Size     `toml:"header_bytes" default:"1MB" min:"16KB" max:"1MB"`
	SignInFailures        int      `toml:"sign_in_failures" default:"10" min:"0" max:"1000000"`
	SignInWindow          Duration `toml:"sign_in_window" default:"10m" min:"1s" max:"24h"`
	SignInBan             Duration `toml:"sign_in_ban" default:"1h" min:"1s" max:"720h"`
	POP3LoginDelay        Duration `toml:"pop3_login_delay" default:"0s" min:"0s" max:"24h"`
	SignInLoopback        bool     `toml:"sign_in_loopback" default:"false"`
}

// Store is the section [store].
type Store struct {
	CacheSize         Size     `toml:"cache_size" default:"96MB" demo:"64MB" min:"1MB" max:"1TB"`
	DBCacheEntries    int      `toml:"db_cache_entries" default:"10000" min:"10" max:"10000000"`
	MemtableSize      Size     `toml:"memtable_size" default:"32MB" demo:"16MB" min:"1MB" max:"2GB"`
	WALSyncInterval   Duration `toml:"wal_sync_interval" default:"500us" min:"0s" max:"100ms"`
	Compression       bool     `toml:"compression" default:"true"`
	ObjectSize        Size     `toml:"object_size" default:"32KB" min:"4KB" max:"96KB"`
	SegmentsCache     Size     `toml:"segments_cache" default:"10GB" min:"0B" max:"1000TB"`
	SpaceFloor        Size     `toml:"space_floor" default:"1GB" demo:"100MB" min:"0B" max:"1TB"`
	SpaceFloorPercent int      `toml:"space_floor_percent" default:"5" demo:"1" min:"0" max:"90"`
}

// Search is the section [search].
type Search struct {
	Enabled        bool   `toml:"enabled" default:"true"`
	Dir            string `toml:"dir" default:""`
	CacheSize      Size   `toml:"cache_size" default:"32MB" demo:"16MB" min:"1MB" max:"1TB"`
	MemtableSize   Size   `toml:"memtable_size" default:"16MB" demo:"8MB" min:"256KB" max:"1GB"`
	DocumentsSize  Size   `toml:"documents_size" default:"32MB" demo:"8MB" min:"1MB" max:"1TB"`
	Attachments    bool   `toml:"attachments" default:"true"`
	AttachmentSize Size   `toml:"attachment_size" default:"20MB" min:"64KB" max:"1GB"`
	PartText       Size   `toml:"part_text" default:"1MB" min:"16KB" max:"64MB"`
	MessageText    Size   `toml:"message_text" default:"2MB" min:"64KB" max:"128MB"`
	Share          int    `toml:"share" default:"50" min:"1" max:"100"`
	RebuildShare   int    `toml:"rebuild_share" default:"25" min:"1" max:"100"`
}

// Directory is the section [directory].
type Directory struct {
	NameCacheEntries int  `toml:"name_cache_entries" default:"100000" min:"100" max:"10000000"`
	Argon2Workers    int  `toml:"argon2_workers" default:"0" min:"0" max:"1024"`
	SCRAM            bool `toml:"scram" default:"false" demo:"true"`
	Lookup           bool `toml:"lookup" default:"true"`
}

// LDAP is the section [ldap].
type LDAP struct {
	Base          string   `toml:"base" default:""`
	People        string   `toml:"people" default:"ou=people"`
	Groups        string   `toml:"groups" default:"ou=groups"`
	Anonymous     string   `toml:"anonymous" default:"off" oneof:"off loopback"`
	Readers       string   `toml:"readers" default:""`
	Entries       int      `toml:"entries" default:"100" min:"1" max:"100000"`
	ReaderEntries int      `toml:"reader_entries" default:"10000" min:"1" max:"1000000"`
	SearchTime    Duration `toml:"search_time" default:"30s" min:"1s" max:"10m"`
}

// Verify is the section [verify].
type Verify struct {
	DMARC           string   `toml:"dmarc" default:"reject" oneof:"off mark junk reject"`
	SPF             string   `toml:"spf" default:"mark" oneof:"off mark junk reject"`
	Trouble         string   `toml:"trouble" default:"accept" oneof:"accept defer"`
	Blocklists      string   `toml:"blocklists" default:""`
	Blocked         string   `toml:"blocked" default:"reject" oneof:"junk reject"`
	Greylist        Duration `toml:"greylist" default:"0s" min:"0s" max:"1h"`
	GreylistEntries int      `toml:"greylist_entries" default:"100000" min:"1000" max:"10000000"`
	ARCTrusted      string   `toml:"arc_trusted"`
	Exempt          string   `toml:"exempt" default:""`
}

// Filter is the section [filter].
type Filter struct {
	GreetingDelay  Duration `toml:"greeting_delay" default:"0s" min:"0s" max:"1m"`
	Milters        string   `toml:"milters" default:""`
	MilterTimeout  Duration `toml:"milter_timeout" default:"30s" min:"1s" max:"10m"`
	MilterFail     string   `toml:"milter_fail" default:"tempfail" oneof:"tempfail accept"`
	Submissions    bool     `toml:"submissions" default:"false"`
	Rspamd         string   `toml:"rspamd" default:""`
	RspamdPassword string   `toml:"rspamd_password" default:"" secret:"true"`
	RspamdTimeout  Duration `toml:"rspamd_timeout" default:"20s" min:"1s" max:"10m"`
	RspamdFail     string   `toml:"rspamd_fail" default:"accept" oneof:"tempfail accept"`
}

// Junk is the section [junk].
type Junk struct {
	Enabled   bool   `toml:"enabled" default:"true"`
	Threshold int    `toml:"threshold" default:"99" min:"50" max:"100"`
	Junk      int    `toml:"learned_junk" default:"20" min:"5" max:"2000"`
	Good      int    `toml:"learned_good" default:"100" min:"5" max:"2000"`
	Shared    string `toml:"shared" default:""`
	Memory    Size   `toml:"memory" default:"64MB" min:"1MB" max:"16GB"`
}

// Sign is the section [sign].
type Sign struct {
	DKIM bool `toml:"dkim" default:"true" demo:"false"`
	ARC  bool `toml:"arc" default:"true"`
}

// Reports is the section [reports].
type Reports struct {
	TLS     bool   `toml:"tls" default:"true" demo:"false"`
	DMARC   bool   `toml:"dmarc" default:"true" demo:"false"`
	Address string `toml:"address" default:"postmaster"`
}

// Tasks is the section [tasks].
type Tasks struct {
	Run  string   `toml:"run" default:"all"`
	At   string   `toml:"at" default:""`
	Keep Duration `toml:"statistics" default:"840h" min:"24h" max:"43800h"`
}

// Probes is the section [probes].
type Probes struct {
	Run        string   `toml:"run" default:"all"`
	Every      string   `toml:"every" default:""`
	Limits     string   `toml:"limits" default:""`
	Keep       Duration `toml:"keep" default:"2160h" min:"24h" max:"43800h"`
	Mail       string   `toml:"mail" default:"postmaster"`
	MailLeast  string   `toml:"mail_severity" default:"warning-high" oneof:"warning-low warning-high failure fatal"`
	MailEvery  Duration `toml:"mail_every" default:"1h" min:"5m" max:"168h"`
	Webhook    string   `toml:"webhook" default:""`
	HookSecret string   `toml:"webhook_secret" default:"" secret:"true"`
	HookLeast  string   `toml:"webhook_severity" default:"warning-low" oneof:"warning-low warning-high failure fatal"`
	TestMail   string   `toml:"test_mail" default:""`
	Blocklists string   `toml:"blocklists" default:""`
	Addresses  string   `toml:"addresses" default:""`
}

// Mail is the section [mail].
type Mail struct {
	KeepDeleted Duration `toml:"keep_deleted" default:"336h" min:"0s" max:"87600h"`
}

// Router is the section [router].
type Router struct {
	Send             bool     `toml:"send" default:"true" demo:"false"`
	Smarthost        string   `toml:"smarthost" default:""`
	SmarthostTLS     string   `toml:"smarthost_tls" default:"verify" oneof:"none may encrypt verify implicit"`
	SmarthostUser    string   `toml:"smarthost_user" default:""`
	SmarthostSecret  string   `toml:"smarthost_password_file" default:""`
	Boxes            int      `toml:"mail_boxes" default:"1" min:"1" max:"8"`
	RetryFirst       Duration `toml:"retry_first" default:"5m" min:"1s" max:"24h"`
	RetryMax         Duration `toml:"retry_max" default:"4h" min:"1s" max:"72h"`
	Expire           Duration `toml:"expire" default:"120h" min:"1m" max:"720h"`
	DelayReport      Duration `toml:"delay_report" default:"4h" min:"0s" max:"720h"`
	KeepDead         Duration `toml:"keep_dead" default:"720h" min:"1h" max:"8760h"`
	Connections      int      `toml:"connections" default:"200" min:"1" max:"10000"`
	PerDestination   int      `toml:"connections_per_destination" default:"20" min:"1" max:"1000"`
	PerConnection    int      `toml:"messages_per_connection" default:"200" min:"1" max:"100000"`
	IdleTimeout      Duration `toml:"idle_timeout" default:"5s" min:"0s" max:"5m"`
	ConnectTimeout   Duration `toml:"connect_timeout" default:"30s" min:"1s" max:"5m"`
	Timeout          Duration `toml:"timeout" default:"5m" min:"1s" max:"1h"`
	MTASTS           bool     `toml:"mta_sts" default:"true"`
	MessagesPerDay   int      `toml:"messages_per_day" default:"0" min:"0" max:"10000000"`
	RecipientsPerDay int      `toml:"recipients_per_day" default:"0" min:"0" max:"10000000"`
	KeepTrace        Duration `toml:"keep_trace" default:"168h" min:"0s" max:"8760h"`
}

// Journal is the section [journal].
type Journal struct {
	Enabled    bool     `toml:"enabled" default:"false"`
	Rules      string   `toml:"rules" default:""`
	Recipients string   `toml:"recipients" default:"server"`
	Readers    string   `toml:"readers" default:""`
	RollSize   Size     `toml:"roll_size" default:"10GB" min:"0B" max:"1TB"`
	RollDays   int      `toml:"roll_days" default:"0" min:"0" max:"3650"`
	Keep       Duration `toml:"keep" default:"0s" min:"0s" max:"876000h"`
	OnFailure  string   `toml:"on_failure" default:"defer" oneof:"defer deliver"`
}

// Cluster is the section [cluster].
type Cluster struct {
	Direct        string `toml:"direct" default:":7223" demo:"off"`
	Routes        string `toml:"routes" default:":7222" demo:"off"`
	Interface     string `toml:"interface" default:""`
	Advertise     string `toml:"advertise" default:""`
	NATS          string `toml:"nats" default:""`
	NATSCreds     string `toml:"nats_credentials" default:""`
	NATSKey       string `toml:"nats_nkey" default:""`
	NATSCA        string `toml:"nats_ca" default:""`
	Requests      int    `toml:"requests" default:"64" min:"1" max:"1000"`
	RequestMemory Size   `toml:"request_memory" default:"4MB" min:"256KB" max:"256MB"`
	Replicas      int    `toml:"replicas" default:"2" min:"0" max:"16"`
	Replicators   int    `toml:"replicators" default:"1" min:"1" max:"16"`
	Streams       int    `toml:"streams" default:"5000" min:"16" max:"1000000"`
}

// Replica is the section [replica].
type Replica struct {
	Serve        bool `toml:"serve" default:"true"`
	Requests     int  `toml:"requests" default:"64" min:"1" max:"10000"`
	PerPerson    int  `toml:"requests_per_person" default:"8" min:"1" max:"10000"`
	ObjectMemory Size `toml:"object_memory" default:"256MB" demo:"64MB" min:"8MB" max:"1TB"`
}

// DNS is the section [dns].
type DNS struct {
	Servers      string   `toml:"servers" default:""`
	Trusted      string   `toml:"trusted" default:""`
	Timeout      Duration `toml:"timeout" default:"3s" min:"100ms" max:"1m"`
	CacheEntries int      `toml:"cache_entries" default:"20000" min:"100" max:"10000000"`
}

// OAuth is the section [oauth].
type OAuth struct {
	Issuer   string `toml:"issuer" default:""`
	Audience string `toml:"audience" default:""`
	Claim    string `toml:"claim" default:"email"`
	// Web and the settings below apply to the web pages.
	Web        bool   `toml:"web" default:"false"`
	WebName    string `toml:"web_name" default:""`
	SecretFile string `toml:"client_secret_file" default:""`
}

// Log is the section [log].
type Log struct {
	Level    string `toml:"level" default:"info" demo:"warn" oneof:"debug info warn error"`
	Format   string `toml:"format" default:"text" oneof:"text json"`
	Messages bool   `toml:"messages" default:"true"`
	// Slow is the time from which an operation is slow; 0 records none.
	Slow Duration `toml:"slow" default:"0s" min:"0s" max:"1h"`
}

// Default returns the settings of `doublet serve` without a file, variables or flags.
func Default() Config { return preset("default") }

// Demo returns the settings of `doublet demo`: every door on loopback, on ports that need no privilege.
func Demo() Config { return preset("demo") }
