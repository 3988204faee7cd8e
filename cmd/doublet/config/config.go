// Package config holds the settings of one machine: paths, listeners, memory, limits. They are read from `doublet.toml`
// in the data folder; an environment variable overrides the file, a flag overrides both. The settings of a domain
// (people, policies, quotas) are notes in the directory, not here.
//
// The struct is also the documentation: doc/config.md and `doublet config show` are generated from its tags. Tag `doc`
// describes a setting, `default` holds its value for `serve`, and `demo` holds its value for `doublet demo` where that
// differs.
package config

// FileName is the name of the configuration file in the data folder.
const FileName = "doublet.toml"

// Off is the address of a door (a listener) that is closed.
const Off = "off"

// Config holds all settings. Default, Demo and Load return one.
type Config struct {
	Server    Server    `toml:"server" doc:"Name and domain of this server."`
	Data      Data      `toml:"data" doc:"Folders on this machine."`
	Doors     Doors     `toml:"doors" doc:"Addresses on which the server listens. Each door is host:port, with an empty host for every address of the machine, or off. Every door also has a flag of its name."`
	Web       Web       `toml:"web" doc:"Web: the doors http and https."`
	JMAP      JMAP      `toml:"jmap" doc:"Limits for JMAP clients; the session object announces them (doc/jmap.md)."`
	Push      Push      `toml:"push" doc:"Push notifications for JMAP clients."`
	TLS       TLS       `toml:"tls" doc:"TLS certificate of the doors."`
	ACME      ACME      `toml:"acme" doc:"Certificates from an ACME certificate authority, such as Let's Encrypt, renewed automatically."`
	Limits    Limits    `toml:"limits" doc:"Limits per client, per message and in total."`
	Store     Store     `toml:"store" doc:"Memory and flushing of the note store."`
	Search    Search    `toml:"search" doc:"The full-text index (doc/search.md)."`
	Directory Directory `toml:"directory" doc:"Name lookups and password checks."`
	Verify    Verify    `toml:"verify" doc:"Authentication of incoming mail (SPF, DKIM, DMARC). Clients on this machine, authenticated users, and the networks in exempt are not checked."`
	Filter    Filter    `toml:"filter" doc:"Filters for incoming mail: milters and rspamd, against spam and viruses."`
	Reports   Reports   `toml:"reports" doc:"Reports between mail domains: TLS reports, and DMARC aggregate reports."`
	Sign      Sign      `toml:"sign" doc:"Signatures on outgoing mail."`
	Router    Router    `toml:"router" doc:"Outgoing mail, and the queue in mail.box. Create routes per domain with doublet route add."`
	DNS       DNS       `toml:"dns" doc:"DNS resolvers, used to route mail and to authenticate senders."`
	Cluster   Cluster   `toml:"cluster" doc:"Clustering: servers that fail over to each other. A server is in a cluster after doublet cluster init or join; this section has its addresses."`
	Replica   Replica   `toml:"replica" doc:"Replication with servers outside this cluster, and with laptops (doublet replicate, doublet connection add)."`
	OAuth     OAuth     `toml:"oauth" doc:"Sign-in with tokens of an OpenID Connect issuer (OAUTHBEARER, XOAUTH2); off without an issuer."`
	Log       Log       `toml:"log" doc:"Log of the server, on standard error."`
}

// Server is the section [server].
type Server struct {
	Name   string `toml:"name" doc:"Host name of the server, used in greetings and Received fields. Empty: the machine's host name." default:"" demo:"localhost"`
	Domain string `toml:"domain" doc:"Internet domain of people whose address names none." default:"" demo:"example.com"`
	// Proxies applies to every door.
	Proxies string `toml:"proxies" doc:"Addresses and networks of load balancers in front of the doors, separated by spaces. Connections from them must begin with a PROXY protocol header (version 1 or 2), which names the client; connections without it are closed. At http and https, a web proxy that names its client in web.proxy_header is accepted as well. Headers from other addresses are ignored." default:""`
}

// Data is the section [data].
type Data struct {
	Dir         string `toml:"dir" doc:"Data folder, for a file that --config names. A file inside a data folder applies to that folder, wherever it is moved, and omits this setting. The flag --data overrides it, and decides where the file is looked for." default:"./data"`
	WALDir      string `toml:"wal_dir" doc:"Folder of the transaction log, best on a device of its own. Empty: in the data folder." default:""`
	IndexDir    string `toml:"index_dir" doc:"Folder of the storage engine's tables: everything but the transaction log and large parts of messages. Empty: notes in the data folder. To move it, stop the server and move its contents." default:""`
	SegmentsDir string `toml:"segments_dir" doc:"Folder of the segments, which hold large parts of messages; a large, slow device is sufficient. Empty: objects in the data folder. To move it, stop the server and move its contents." default:""`
	BackupDir   string `toml:"backup_dir" doc:"Default folder for doublet backup. Best on another machine or device." default:""`
	BackupRate  Size   `toml:"backup_rate" doc:"Maximum read rate of a backup, per second. 0B: leave half of the time to users; 1TB: unlimited." default:"0B" min:"0B" max:"1TB"`
	BackupCheck string `toml:"backup_check" doc:"How a backup is verified after it is taken. open reads back what was copied, compares the lengths of all other files and opens the store in it; full reads the whole backup and checks every row of the store; off skips verification, for folders that are verified elsewhere (doublet backup verify) or where reading is expensive. A backup that fails verification is marked and reported as an error, and prevents thinning of older ones." default:"open" oneof:"off open full"`
}

// Doors is the section [doors].
type Doors struct {
	SMTP        string `toml:"smtp" doc:"Mail from other servers (RFC 5321)." default:":25" demo:"127.0.0.1:2525"`
	Submission  string `toml:"submission" doc:"Mail from people, STARTTLS (RFC 6409)." default:":587" demo:"127.0.0.1:2587"`
	Submissions string `toml:"submissions" doc:"Mail from people, TLS from the first byte (RFC 8314)." default:":465" demo:"off"`
	LMTP        string `toml:"lmtp" doc:"Local delivery (LMTP), with one reply per recipient (RFC 2033)." default:"off" demo:"127.0.0.1:2424"`
	IMAP        string `toml:"imap" doc:"IMAP for mail programs, STARTTLS (RFC 9051, RFC 3501)." default:":143" demo:"127.0.0.1:2143"`
	IMAPS       string `toml:"imaps" doc:"IMAP for mail programs, TLS from the first byte (RFC 8314)." default:":993" demo:"127.0.0.1:2993"`
	POP3        string `toml:"pop3" doc:"POP3 access to INBOX, STLS (RFC 1939)." default:"off" demo:"127.0.0.1:2110"`
	POP3S       string `toml:"pop3s" doc:"POP3 access to INBOX, TLS from the first byte (RFC 8314)." default:"off" demo:"off"`
	HTTP        string `toml:"http" doc:"Automatic configuration of mail programs, ACME challenges, /healthz and /readyz; the status page and /metrics for web.monitors." default:":80" demo:"127.0.0.1:8080"`
	HTTPS       string `toml:"https" doc:"The same over TLS, with HTTP/2; and the MTA-STS policy." default:":443" demo:"127.0.0.1:8443"`
}

// Web is the section [web].
type Web struct {
	URL      string `toml:"url" doc:"Public base URL of the web doors, such as https://mail.example.com: for links in mail, such as those that unsubscribe from a mailing list (RFC 8058). Empty: mail contains no such links." default:""`
	Monitors string `toml:"monitors" doc:"Addresses and networks that may see the status page and /metrics, separated by spaces; others get 404." default:"127.0.0.0/8 ::1"`
	// Proxies and ProxyHeader apply to the doors http and https only.
	Proxies     string   `toml:"proxies" doc:"Addresses and networks of web proxies (nginx, Caddy) in front of http and https, separated by spaces, in addition to server.proxies; for a proxy on this machine 127.0.0.1 ::1. For requests from them, the field proxy_header names the client and the protocol. Mail doors are not affected." default:""`
	ProxyHeader string   `toml:"proxy_header" doc:"Header field in which web proxies name the client: X-Forwarded-For, X-Real-IP (both with X-Forwarded-Proto), or Forwarded (RFC 7239). Each proxy must add to it or overwrite it. The other fields are ignored." default:"X-Forwarded-For" oneof:"X-Forwarded-For X-Real-IP Forwarded"`
	Redirect    bool     `toml:"redirect" doc:"Redirect pages and sign-ins from http to https, if that door is open. Requests of mail programs, ACME and health checks are answered at both." default:"true" demo:"false"`
	HSTS        Duration `toml:"hsts" doc:"How long browsers are told to use https only (Strict-Transport-Security). 0: the header is not sent." default:"4320h" demo:"0s" min:"0s" max:"17520h"`
	MTASTS      string   `toml:"mta_sts" doc:"MTA-STS policy of the local domains, at https://mta-sts.DOMAIN/.well-known/mta-sts.txt: enforce lets other servers deliver only over TLS with a valid certificate, testing asks them to report failures, none withdraws a policy, off publishes none. It applies once DNS has the record _mta-sts." default:"testing" oneof:"off none testing enforce"`
	MTASTSAge   Duration `toml:"mta_sts_age" doc:"How long other servers cache the policy." default:"168h" min:"1h" max:"8760h"`
	MTASTSMX    string   `toml:"mta_sts_mx" doc:"Mail hosts that the policy names, separated by spaces. Empty: the server's name." default:""`
	// SessionIdle and the settings below apply to browser sessions.
	SessionIdle Duration `toml:"session_idle" doc:"How long an unused browser session lasts." default:"336h" min:"1m" max:"8760h"`
	SessionLife Duration `toml:"session_life" doc:"Maximum lifetime of a browser session." default:"2160h" min:"1m" max:"8760h"`
	// AdminFrom and AdminFresh apply to administrators who use a browser.
	AdminFrom  string   `toml:"admin_from" doc:"Addresses and networks from which people with the role Admin may administer the server in a browser, separated by spaces; others get 404. Empty: nobody may." default:"0.0.0.0/0 ::/0"`
	AdminFresh Duration `toml:"admin_fresh" doc:"How long after sign-in an administrator may make changes in the browser before the password is asked for again. 0: it is never asked for again." default:"1h" min:"0s" max:"8760h"`
	AdminReach string   `toml:"admin_reach" doc:"Addresses and networks, beyond the public Internet, that administrators may name in the browser for replication (connection add, replica copy), separated by spaces: for example 10.0.0.0/8 for schools that reach each other there. The command line on the server's machine may name any." default:""`
	Sessions   int      `toml:"sessions_per_person" doc:"Maximum number of browser sessions of one person. A new one beyond it ends the one that has been unused the longest." default:"50" min:"1" max:"1000"`
}

// Push is the section [push].
type Push struct {
	PerPerson int      `toml:"connections_per_person" doc:"Maximum number of connections on which one person's programs wait for changes (EventSource, WebSocket)." default:"100" min:"1" max:"100000"`
	Web       bool     `toml:"web" doc:"Allow subscriptions to push notifications through the push services of browsers and phones (Web Push). The server then connects to those services." default:"true"`
	Life      Duration `toml:"subscription_life" doc:"How long a subscription lasts if the program does not renew it." default:"720h" min:"48h" max:"8760h"`
	PerDevice int      `toml:"subscriptions_per_person" doc:"Maximum number of subscriptions of one person." default:"50" min:"1" max:"1000"`
	Private   string   `toml:"private" doc:"Addresses and networks outside the public Internet to which pushes may be sent, separated by spaces: for a push service of your own. All other private addresses in subscription URLs are rejected." default:""`
	Contact   string   `toml:"contact" doc:"Contact address for push services (VAPID), a mailto: or https: URL. Empty: the postmaster of server.domain." default:""`
}

// JMAP is the section [jmap].
type JMAP struct {
	Request            Size `toml:"request_size" doc:"Maximum size of a request (maxSizeRequest). Uploads may have limits.message_size." default:"10MB" min:"1MB" max:"50MB"`
	Calls              int  `toml:"calls_per_request" doc:"Maximum number of method calls in a request (maxCallsInRequest)." default:"64" min:"16" max:"1000"`
	ObjectsInGet       int  `toml:"objects_in_get" doc:"Maximum number of objects that one call may get (maxObjectsInGet)." default:"1000" min:"100" max:"10000"`
	ObjectsInSet       int  `toml:"objects_in_set" doc:"Maximum number of objects that one call may change (maxObjectsInSet)." default:"1000" min:"100" max:"10000"`
	ConcurrentRequests int  `toml:"requests_at_once" doc:"Maximum number of concurrent requests of one session or app password (maxConcurrentRequests)." default:"8" min:"1" max:"100"`
	ConcurrentUploads  int  `toml:"uploads_at_once" doc:"Maximum number of concurrent uploads (maxConcurrentUpload)." default:"4" min:"1" max:"100"`
	Uploads            Size `toml:"waiting_uploads" doc:"Maximum total size of one person's uploads that no message uses. They are kept for a day; beyond this size, or 500 uploads, the oldest are deleted." default:"200MB" min:"10MB" max:"10GB"`
}

// TLS is the section [tls].
type TLS struct {
	Certificate string `toml:"certificate" doc:"PEM file with the certificate chain. Empty together with key: the server creates a self-signed one in the data folder." default:""`
	Key         string `toml:"key" doc:"PEM file with the private key of the certificate." default:""`
	Folder      string `toml:"folder" doc:"Folder with more certificates, selected by the name that a client asks for (SNI): NAME.pem with NAME.key, or NAME/fullchain.pem with NAME/privkey.pem. Changed files are reloaded within a minute, and on SIGHUP." default:""`
	// WarnBefore applies to every certificate: from files, from ACME, self-signed.
	WarnBefore Duration `toml:"warn_before" doc:"How long before a certificate expires the server begins to warn, once a day." default:"336h" min:"1h" max:"8760h"`
}

// ACME is the section [acme].
type ACME struct {
	Enabled    bool   `toml:"enabled" doc:"Request certificates from the authority; by setting this you agree to its terms. The http door must be reachable at port 80, or https at 443, or dns_command must be set." default:"false"`
	Directory  string `toml:"directory" doc:"Directory URL of the authority." default:"https://acme-v02.api.letsencrypt.org/directory"`
	Email      string `toml:"email" doc:"E-mail address for notices of the authority." default:""`
	Names      string `toml:"names" doc:"Names in certificates in addition to the server's name, separated by spaces: a word without a dot is prefixed to every local domain, a name with a dot is used as it is; * is a wildcard and needs dns_command. Names without an address in DNS are omitted." default:"mta-sts autoconfig autodiscover"`
	Challenges string `toml:"challenges" doc:"Challenges by which the authority may validate a name: http-01, tls-alpn-01, separated by spaces. dns_command adds dns-01." default:"http-01 tls-alpn-01"`
	DNSCommand string `toml:"dns_command" doc:"Program that changes the public DNS zone for dns-01. It is run with add or remove, the name of a TXT record, and its value, and must exit only after the change is visible." default:""`
	Root       string `toml:"root" doc:"PEM file with the root certificates for the authority's own certificate. Empty: those of the system." default:""`
	KeyID      string `toml:"key_id" doc:"External account binding, if the authority requires it: key ID." default:""`
	MACKey     string `toml:"mac_key" doc:"External account binding: MAC key, base64url." default:""`
}

// Limits is the section [limits].
type Limits struct {
	MessageSize           Size     `toml:"message_size" doc:"Maximum size of a message in transfer encoding." default:"50MB" min:"64KB" max:"2GB"`
	Recipients            int      `toml:"recipients" doc:"Maximum number of recipients of one message." default:"1000" min:"100" max:"100000"`
	Connections           int      `toml:"connections" doc:"Maximum number of open connections of all doors together." default:"20000" min:"1" max:"1000000"`
	CompressedConnections int      `toml:"compressed_connections" doc:"Maximum number of IMAP connections with DEFLATE (RFC 4978). An idle one keeps up to 32 KB of what its client sent." default:"5000" min:"1" max:"1000000"`
	ConnectionsPerAddress int      `toml:"connections_per_address" doc:"Maximum number of open connections from one address. Loopback is not counted." default:"200" min:"1" max:"1000000"`
	SessionsPerPerson     int      `toml:"sessions_per_person" doc:"Maximum number of connections of one person, over all doors. 0: no limit." default:"100" min:"0" max:"1000000"`
	Users                 int      `toml:"users" doc:"Maximum number of people signed in at one time. 0: no limit." default:"0" min:"0" max:"10000000"`
	Transactions          int      `toml:"transactions" doc:"Maximum number of commands in progress at one time; others wait for their turn. Commands that wait for their client are not counted. 0: no limit." default:"5000" min:"0" max:"1000000"`
	MessageMemory         Size     `toml:"message_memory" doc:"Memory for messages in transfer, of all sessions together. Beyond it, senders are asked to retry later." default:"256MB" min:"4MB" max:"1TB"`
	MessageMemoryShare    int      `toml:"message_memory_share" doc:"Share of this memory, in percent, that the sessions of one address may use. Loopback may use all." default:"50" min:"1" max:"100"`
	IdleTimeout           Duration `toml:"idle_timeout" doc:"How long a signed-in IMAP client may be idle (RFC 9051: at least 30 minutes)." default:"30m" min:"1m" max:"24h"`
	CommandTimeout        Duration `toml:"command_timeout" doc:"How long an SMTP client may be idle between commands (RFC 5321: at least 5 minutes)." default:"5m" min:"10s" max:"1h"`
	NotifyMailboxes       int      `toml:"notify_mailboxes" doc:"Maximum number of mailboxes that all IMAP sessions together watch with NOTIFY (RFC 5465); about 150 bytes each. Sessions beyond it get NOTIFICATIONOVERFLOW." default:"200000" min:"100" max:"100000000"`
	DataTimeout           Duration `toml:"data_timeout" doc:"How long a client may pause within a message." default:"3m" min:"10s" max:"1h"`
	LoginTimeout          Duration `toml:"login_timeout" doc:"How long an IMAP or POP3 client may stay connected without signing in." default:"3m" min:"10s" max:"1h"`
	HandshakeTimeout      Duration `toml:"handshake_timeout" doc:"Timeout of a TLS handshake." default:"30s" min:"1s" max:"5m"`
	MIMEDepth             int      `toml:"mime_depth" doc:"Maximum nesting depth of message parts; deeper parts are stored unchanged and not parsed." default:"100" min:"1" max:"100"`
	HeaderBytes           Size     `toml:"header_bytes" doc:"Maximum length of the header of a message or part that is parsed; the rest is stored unchanged and not parsed." default:"1MB" min:"16KB" max:"1MB"`
	SignInFailures        int      `toml:"sign_in_failures" doc:"Failed sign-ins from one address (or IPv6 /64) within sign_in_window after which the address is banned for sign_in_ban. From the third on, each attempt is delayed, longer every time. Repeating the same wrong password does not count. 0: no delays and no bans." default:"10" min:"0" max:"1000000"`
	SignInWindow          Duration `toml:"sign_in_window" doc:"How long failed sign-ins are remembered." default:"10m" min:"1s" max:"24h"`
	SignInBan             Duration `toml:"sign_in_ban" doc:"How long an address is banned. doublet show bans lists them, doublet ban remove lifts one." default:"1h" min:"1s" max:"720h"`
	POP3LoginDelay        Duration `toml:"pop3_login_delay" doc:"Minimum time between two POP3 sessions of one person. 0: none." default:"0s" min:"0s" max:"24h"`
	SignInLoopback        bool     `toml:"sign_in_loopback" doc:"Also count failed sign-ins from this machine." default:"false"`
}

// Store is the section [store].
type Store struct {
	CacheSize         Size     `toml:"cache_size" doc:"Buffer pool: the block cache of the storage engine." default:"256MB" demo:"64MB" min:"1MB" max:"1TB"`
	DBCacheEntries    int      `toml:"db_cache_entries" doc:"Maximum number of databases kept open in memory." default:"10000" min:"10" max:"10000000"`
	MemtableSize      Size     `toml:"memtable_size" doc:"Size of one memtable of the storage engine." default:"64MB" demo:"16MB" min:"1MB" max:"2GB"`
	WALSyncInterval   Duration `toml:"wal_sync_interval" doc:"Minimum time between two flushes of the transaction log; commits that arrive meanwhile share one." default:"500us" min:"0s" max:"100ms"`
	SpaceFloor        Size     `toml:"space_floor" doc:"Free disk space below which writes are rejected (452, NO, 507) until space is available again; the greater of this and space_floor_percent applies." default:"1GB" demo:"100MB" min:"0B" max:"1TB"`
	SpaceFloorPercent int      `toml:"space_floor_percent" doc:"The same, in percent of the device." default:"5" demo:"1" min:"0" max:"90"`
}

// Search is the section [search].
type Search struct {
	Enabled        bool   `toml:"enabled" doc:"Keep a full-text index. Without it, searches return the same results by reading every text." default:"true"`
	Dir            string `toml:"dir" doc:"Folder of the index. Empty: search in the data folder. It can be rebuilt from the mail, and is not backed up." default:""`
	CacheSize      Size   `toml:"cache_size" doc:"Block cache of the index." default:"64MB" demo:"16MB" min:"1MB" max:"1TB"`
	MemtableSize   Size   `toml:"memtable_size" doc:"Size of one memtable of the index." default:"16MB" demo:"8MB" min:"256KB" max:"1GB"`
	DocumentsSize  Size   `toml:"documents_size" doc:"Memory for the list of indexed documents; about 21 bytes a message." default:"32MB" demo:"8MB" min:"1MB" max:"1TB"`
	Attachments    bool   `toml:"attachments" doc:"Index attachments too: PDF, Office Open XML, OpenDocument." default:"true"`
	AttachmentSize Size   `toml:"attachment_size" doc:"Maximum size of an indexed attachment." default:"20MB" min:"64KB" max:"1GB"`
	PartText       Size   `toml:"part_text" doc:"Maximum length of indexed text in one part of a message, or in one attachment." default:"1MB" min:"16KB" max:"64MB"`
	MessageText    Size   `toml:"message_text" doc:"Maximum length of indexed text in one message, and again in its attachments." default:"2MB" min:"64KB" max:"128MB"`
	Share          int    `toml:"share" doc:"Share of one processor for indexing, in percent. Beyond it the index lags, and searches read more texts themselves." default:"50" min:"1" max:"100"`
	RebuildShare   int    `toml:"rebuild_share" doc:"The same share while mail that is older than the index is indexed." default:"25" min:"1" max:"100"`
}

// Directory is the section [directory].
type Directory struct {
	NameCacheEntries int  `toml:"name_cache_entries" doc:"Maximum number of resolved names kept in memory." default:"100000" min:"100" max:"10000000"`
	Argon2Workers    int  `toml:"argon2_workers" doc:"Maximum number of concurrent password checks; each takes 19 MiB. 0: half of the processors, at least one." default:"0" min:"0" max:"1024"`
	SCRAM            bool `toml:"scram" doc:"Offer SCRAM-SHA-256 (over TLS also SCRAM-SHA-256-PLUS), and store credentials for it with every password that is set from now on. App passwords always have them. People without them need a new password before a mail program that prefers SCRAM can sign in." default:"false" demo:"true"`
	Lookup           bool `toml:"lookup" doc:"Let signed-in people look up names and addresses of people and groups while they write, in the full client, the lite mode and JMAP programs." default:"true"`
}

// Verify is the section [verify].
type Verify struct {
	DMARC           string   `toml:"dmarc" doc:"How the author domain's DMARC policy is applied if neither SPF nor DKIM authenticates the author: reject applies it, junk delivers into Junk what the policy wants rejected, mark only adds the result to the header, off skips DKIM and DMARC." default:"reject" oneof:"off mark junk reject"`
	SPF             string   `toml:"spf" doc:"The same for SPF fail, if DMARC did not pass. Forwarded mail often fails SPF." default:"mark" oneof:"off mark junk reject"`
	Trouble         string   `toml:"trouble" doc:"Action if DNS servers do not respond and no other check authenticates the author: accept marks the message (and files it in Junk if the author's domain is known to ask for quarantine or reject), defer asks the sender to retry (451). Such mail is never rejected permanently." default:"accept" oneof:"accept defer"`
	Blocklists      string   `toml:"blocklists" doc:"DNS block lists (DNSBL) for the client's address, zones separated by spaces. Mail to postmaster and abuse is accepted in any case." default:""`
	Blocked         string   `toml:"blocked" doc:"Action for mail from a listed client." default:"reject" oneof:"junk reject"`
	Greylist        Duration `toml:"greylist" doc:"Greylisting: how long the first attempt of an unknown client, sender and recipient is deferred. 0: off. The list is in memory; after a restart, senders need one more attempt." default:"0s" min:"0s" max:"1h"`
	GreylistEntries int      `toml:"greylist_entries" doc:"Maximum number of remembered attempts." default:"100000" min:"1000" max:"10000000"`
	ARCTrusted      string   `toml:"arc_trusted" doc:"Domains whose ARC seals are trusted, separated by spaces: if the last seal of a valid chain is from one of them and reports that DMARC passed, the policy of the author's domain is not applied. Empty: none."`
	Exempt          string   `toml:"exempt" doc:"Addresses and networks of your own relays, separated by spaces." default:""`
}

// Filter is the section [filter].
type Filter struct {
	GreetingDelay  Duration `toml:"greeting_delay" doc:"Delay before the greeting at the smtp door. Clients that send before the greeting are rejected, as junk senders often do." default:"0s" min:"0s" max:"1m"`
	Milters        string   `toml:"milters" doc:"Milters, called in this order: host:port or unix:/path, separated by spaces." default:""`
	MilterTimeout  Duration `toml:"milter_timeout" doc:"Timeout of a milter's answer to a command; for a whole message ten times as long." default:"30s" min:"1s" max:"10m"`
	MilterFail     string   `toml:"milter_fail" doc:"Action if a milter does not respond: tempfail asks the sender to retry (451), accept continues without it." default:"tempfail" oneof:"tempfail accept"`
	Submissions    bool     `toml:"submissions" doc:"Also call milters and rspamd for mail of authenticated users." default:"false"`
	Rspamd         string   `toml:"rspamd" doc:"URL of an rspamd worker that checks each message, such as http://127.0.0.1:11333. Spam is filed in Junk or rejected, as rspamd decides. Empty: none." default:""`
	RspamdPassword string   `toml:"rspamd_password" doc:"Password of the worker. Empty: none." default:""`
	RspamdTimeout  Duration `toml:"rspamd_timeout" doc:"Timeout of a check." default:"20s" min:"1s" max:"10m"`
	RspamdFail     string   `toml:"rspamd_fail" doc:"The same as milter_fail." default:"accept" oneof:"tempfail accept"`
}

// Sign is the section [sign].
type Sign struct {
	DKIM bool `toml:"dkim" doc:"Sign outgoing mail with DKIM, for every domain that has keys (doublet domain key); a new domain gets keys automatically. doublet dns show prints the records to publish." default:"true" demo:"false"`
	ARC  bool `toml:"arc" doc:"Seal mail of other domains that this server forwards (forwards, copies of lists) with an ARC set, under the key of the forwarding domain; needs dkim and an RSA key. The seal tells the next server the results of SPF, DKIM and DMARC here." default:"true"`
}

// Reports is the section [reports].
type Reports struct {
	TLS     bool   `toml:"tls" doc:"Send TLS reports (TLSRPT) once a day to the domains that ask for them, with the results of TLS connections to their mail servers. Needs sign.dkim and a key of the first domain." default:"true" demo:"false"`
	DMARC   bool   `toml:"dmarc" doc:"Send DMARC aggregate reports once a day to the domains that ask for them: the servers that sent mail in their name, with the results of SPF, DKIM and DMARC here. Needs verify.dmarc, sign.dkim and a key of the first domain." default:"true" demo:"false"`
	Address string `toml:"address" doc:"Local part of the address that receives reports, at every domain here: dns show prints records that name it. Reports are delivered as usual, and their figures are kept for doublet report. Reports of this server are sent from it, at the first domain. Any name but postmaster or abuse must be the address of a person, group or list." default:"postmaster"`
}

// Router is the section [router].
type Router struct {
	Send             bool     `toml:"send" doc:"Send mail to other domains. If off, it stays in mail.box." default:"true" demo:"false"`
	Smarthost        string   `toml:"smarthost" doc:"host or host:port of a relay for all domains without a route. Empty: mail goes to the servers that DNS names." default:""`
	SmarthostTLS     string   `toml:"smarthost_tls" doc:"TLS with the smarthost: may (if offered), encrypt (required), verify (required, with a valid certificate of its name), implicit (verify, from the first byte), none." default:"verify" oneof:"none may encrypt verify implicit"`
	SmarthostUser    string   `toml:"smarthost_user" doc:"User name for the smarthost (SCRAM-SHA-256, PLAIN, LOGIN). Empty: no sign-in." default:""`
	SmarthostSecret  string   `toml:"smarthost_password_file" doc:"File with the password for the smarthost, on its first line." default:""`
	Boxes            int      `toml:"mail_boxes" doc:"Number of mail.box databases among which messages are distributed." default:"1" min:"1" max:"8"`
	RetryFirst       Duration `toml:"retry_first" doc:"Time to the second attempt; it doubles with each further one." default:"5m" min:"1s" max:"24h"`
	RetryMax         Duration `toml:"retry_max" doc:"Maximum time between two attempts." default:"4h" min:"1s" max:"72h"`
	Expire           Duration `toml:"expire" doc:"How long delivery is retried before the message is returned to its sender." default:"120h" min:"1m" max:"720h"`
	DelayReport      Duration `toml:"delay_report" doc:"After how long the sender is told that a message is still queued. 0: never." default:"4h" min:"0s" max:"720h"`
	KeepDead         Duration `toml:"keep_dead" doc:"How long a message is kept that can be neither delivered nor returned." default:"720h" min:"1h" max:"8760h"`
	Connections      int      `toml:"connections" doc:"Maximum number of open connections to other mail servers." default:"200" min:"1" max:"10000"`
	PerDestination   int      `toml:"connections_per_destination" doc:"Maximum number of connections to one destination." default:"20" min:"1" max:"1000"`
	PerConnection    int      `toml:"messages_per_connection" doc:"Maximum number of messages per connection." default:"200" min:"1" max:"100000"`
	IdleTimeout      Duration `toml:"idle_timeout" doc:"How long an idle connection is kept for more mail." default:"5s" min:"0s" max:"5m"`
	ConnectTimeout   Duration `toml:"connect_timeout" doc:"Timeout of a connection attempt to one address." default:"30s" min:"1s" max:"5m"`
	Timeout          Duration `toml:"timeout" doc:"Timeout of one reply of another server." default:"5m" min:"1s" max:"1h"`
	MTASTS           bool     `toml:"mta_sts" doc:"Apply the MTA-STS policies of other domains." default:"true"`
	MessagesPerDay   int      `toml:"messages_per_day" doc:"Maximum number of messages that one person may send to other domains in a day (UTC); people with the role Bulk Sender may send more. 0: no limit." default:"0" min:"0" max:"10000000"`
	RecipientsPerDay int      `toml:"recipients_per_day" doc:"The same, counted in recipients." default:"0" min:"0" max:"10000000"`
	KeepTrace        Duration `toml:"keep_trace" doc:"How long the routes of messages are remembered (doublet trace). 0: not at all." default:"168h" min:"0s" max:"8760h"`
}

// Cluster is the section [cluster].
type Cluster struct {
	Direct        string `toml:"direct" doc:"Address for mates (probes, large parts of messages, forwarded sessions) and for servers that join: host:port, with an empty host for every address of the machine or of the interface. TLS with certificates of the cluster on both sides. off: this server does not take part in its cluster." default:":7223" demo:"off"`
	Routes        string `toml:"routes" doc:"Address for the message servers (NATS) of mates, in the same form. It is closed if nats is set." default:":7222" demo:"off"`
	Interface     string `toml:"interface" doc:"Network interface for cluster traffic, such as eth1: both addresses use its first address. Empty: any interface." default:""`
	Advertise     string `toml:"advertise" doc:"Host name or address at which mates reach this server. Empty: the host of direct, or the interface's address, or server.name." default:""`
	NATS          string `toml:"nats" doc:"URLs of an external NATS cluster, separated by commas: nats://host:4222 or tls://host:4222, with user:password@ if needed. It carries the messages between members, encrypted; all members must name the same. Empty: the servers carry them themselves." default:""`
	NATSCreds     string `toml:"nats_credentials" doc:"File with the NATS credentials (JWT and seed, as nsc writes them). Empty: none." default:""`
	NATSKey       string `toml:"nats_nkey" doc:"File with the seed of a NATS NKey. Empty: none." default:""`
	NATSCA        string `toml:"nats_ca" doc:"PEM file with the root certificates for the NATS server's certificate. Empty: those of the system." default:""`
	Requests      int    `toml:"requests" doc:"Maximum number of concurrent requests from one mate, and to one mate; others wait." default:"64" min:"1" max:"1000"`
	RequestMemory Size   `toml:"request_memory" doc:"The same, as total size of the requests." default:"4MB" min:"256KB" max:"256MB"`
	Replicas      int    `toml:"replicas" doc:"Number of replicas of a database, each on another member, unless doublet cluster replicas sets another number for it; 0: one on every member, up to 16. The directory is on all members." default:"2" min:"0" max:"16"`
	Replicators   int    `toml:"replicators" doc:"Number of Cluster Replicators for each mate. Each database is always served by the same one, which keeps its order." default:"1" min:"1" max:"16"`
	Streams       int    `toml:"streams" doc:"Maximum number of streams that one mate may have open to this server: large parts of messages, forwarded sessions." default:"5000" min:"16" max:"1000000"`
}

// Replica is the section [replica].
type Replica struct {
	Serve        bool `toml:"serve" doc:"Let people and other servers replicate at /replica/ of the web doors, over TLS, as far as access lists allow them." default:"true"`
	Requests     int  `toml:"requests" doc:"Maximum number of concurrent replication requests; others are asked to retry later." default:"64" min:"1" max:"10000"`
	PerPerson    int  `toml:"requests_per_person" doc:"Maximum number of them from one person; as many more may wait for changes." default:"8" min:"1" max:"10000"`
	ObjectMemory Size `toml:"object_memory" doc:"Memory for large parts of messages that arrived from another replica before their message. The largest accepted part is half of it." default:"256MB" demo:"64MB" min:"8MB" max:"1TB"`
}

// DNS is the section [dns].
type DNS struct {
	Servers      string   `toml:"servers" doc:"Addresses of resolvers, address or address:port, separated by spaces. Empty: those of /etc/resolv.conf. Best is a resolver on this machine that validates DNSSEC." default:""`
	Trusted      string   `toml:"trusted" doc:"Addresses of resolvers that validate DNSSEC and are reached over a trusted network: DANE is applied only with their answers. Loopback is always trusted." default:""`
	Timeout      Duration `toml:"timeout" doc:"Timeout of one resolver; each is asked twice." default:"3s" min:"100ms" max:"1m"`
	CacheEntries int      `toml:"cache_entries" doc:"Maximum number of cached answers." default:"20000" min:"100" max:"10000000"`
}

// OAuth is the section [oauth].
type OAuth struct {
	Issuer   string `toml:"issuer" doc:"URL of the issuer, exactly as in its tokens. Empty: tokens are rejected." default:""`
	Audience string `toml:"audience" doc:"Client ID of this server at the issuer; a token must name it as its audience." default:""`
	Claim    string `toml:"claim" doc:"Claim of a token that contains the person's address, short name or full name." default:"email"`
}

// Log is the section [log].
type Log struct {
	Level    string `toml:"level" doc:"Lowest level of messages that are logged." default:"info" demo:"warn" oneof:"debug info warn error"`
	Format   string `toml:"format" doc:"Format of a log line." default:"text" oneof:"text json"`
	Messages bool   `toml:"messages" doc:"A line for each message that arrives, for each outcome of its delivery, and for each recipient refused at RCPT (20 a session), at the level info." default:"true"`
}

// Default returns the settings of `doublet serve` without a file, variables or flags.
func Default() Config { return preset("default") }

// Demo returns the settings of `doublet demo`: every door on loopback, on ports that need no privilege.
func Demo() Config { return preset("demo") }
