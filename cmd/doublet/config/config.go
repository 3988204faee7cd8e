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
	Server    Server    `toml:"server" doc:"Who this server is."`
	Data      Data      `toml:"data" doc:"Where things are on this machine."`
	Doors     Doors     `toml:"doors" doc:"Where the server listens. Each door is host:port, with an empty host for every address of the machine, or off. Every door also has a flag of its name."`
	Web       Web       `toml:"web" doc:"What the doors http and https do."`
	JMAP      JMAP      `toml:"jmap" doc:"What JMAP clients may ask for; the session object announces it (doc/jmap.md)."`
	Push      Push      `toml:"push" doc:"Telling JMAP clients that something has changed."`
	TLS       TLS       `toml:"tls" doc:"The certificate that the doors show."`
	ACME      ACME      `toml:"acme" doc:"Certificates from an authority that speaks ACME, such as Let's Encrypt, renewed by themselves."`
	Limits    Limits    `toml:"limits" doc:"What one client, one message or everyone together may take."`
	Store     Store     `toml:"store" doc:"Memory and habits of the note store."`
	Search    Search    `toml:"search" doc:"The full-text index (doc/search.md)."`
	Directory Directory `toml:"directory" doc:"Looking up names and checking passwords."`
	Verify    Verify    `toml:"verify" doc:"Mail from strangers: whether it is from whom it says. Nobody is asked about clients of this machine, about people who signed in, and about the networks of exempt."`
	Filter    Filter    `toml:"filter" doc:"Mail on its way in: what programs beside the server say about it (spam, viruses)."`
	Reports   Reports   `toml:"reports" doc:"Reports about mail between domains: TLS reports, and DMARC reports of others."`
	Sign      Sign      `toml:"sign" doc:"Mail to others: proving that it is from here."`
	Router    Router    `toml:"router" doc:"Mail that leaves for other servers, and what waits in mail.box. Routes per domain are made with doublet route add."`
	DNS       DNS       `toml:"dns" doc:"The name servers that are asked about the world: where mail goes, and whether it is from whom it says."`
	Cluster   Cluster   `toml:"cluster" doc:"Servers that stand in for each other. A server is in a cluster once doublet cluster init or join has made it so; these are its addresses."`
	Replica   Replica   `toml:"replica" doc:"Replication with servers that are in no cluster with this one, and with laptops (doublet replicate, doublet connection add)."`
	OAuth     OAuth     `toml:"oauth" doc:"Signing in with tokens of an OpenID Connect issuer (OAUTHBEARER, XOAUTH2), off without an issuer."`
	Log       Log       `toml:"log" doc:"What the server says about itself, on standard error."`
}

// Server is the section [server].
type Server struct {
	Name   string `toml:"name" doc:"The server's host name, as it greets and as it stands in Received lines. Empty: what the machine calls itself." default:"" demo:"localhost"`
	Domain string `toml:"domain" doc:"The Internet domain of people whose address names none." default:"" demo:"example.com"`
	// Proxies applies to every door.
	Proxies string `toml:"proxies" doc:"Addresses and networks of load balancers in front of the doors, separated by spaces. Every connection from there must begin with a header of the PROXY protocol (1 or 2), and counts as the client's that it names; without one it is closed. At http and https a web proxy that names its client in web.proxy_header is taken as well. A header from elsewhere is not believed." default:""`
}

// Data is the section [data].
type Data struct {
	Dir         string `toml:"dir" doc:"The data folder, for a file that --config names. A file that stands in a data folder is about that folder, wherever it is moved, and leaves this out. The flag --data goes over it, and decides where the file is looked for." default:"./data"`
	WALDir      string `toml:"wal_dir" doc:"Folder of the transaction log, best on a device of its own. Empty: in the data folder." default:""`
	IndexDir    string `toml:"index_dir" doc:"Folder of the storage engine's tables: everything but the transaction log and large parts of messages. Empty: notes in the data folder. To move it, stop the server and move its contents." default:""`
	SegmentsDir string `toml:"segments_dir" doc:"Folder of the segments, which hold large parts of messages; a large and slow device will do. Empty: objects in the data folder. To move it, stop the server and move its contents." default:""`
	BackupDir   string `toml:"backup_dir" doc:"Folder that doublet backup writes to where it is not told. Best on another machine or device." default:""`
	BackupRate  Size   `toml:"backup_rate" doc:"How much a backup reads a second at most. 0B: it leaves half of the time to the users; 1TB: as fast as it goes." default:"0B" min:"0B" max:"1TB"`
	BackupCheck string `toml:"backup_check" doc:"How a backup is checked after it was taken. open reads back what was copied, compares the lengths of all other files and opens the store in it; full reads the whole backup and checks every row of the store; off checks nothing, for folders that are checked elsewhere (doublet backup verify) or from which reading is dear. A backup that fails is marked, is an error, and lets no older one be thinned." default:"open" oneof:"off open full"`
}

// Doors is the section [doors].
type Doors struct {
	SMTP        string `toml:"smtp" doc:"Mail from other servers (RFC 5321)." default:":25" demo:"127.0.0.1:2525"`
	Submission  string `toml:"submission" doc:"Mail from people, STARTTLS (RFC 6409)." default:":587" demo:"127.0.0.1:2587"`
	Submissions string `toml:"submissions" doc:"Mail from people, TLS from the first byte (RFC 8314)." default:":465" demo:"off"`
	LMTP        string `toml:"lmtp" doc:"Local delivery, a reply per recipient (RFC 2033)." default:"off" demo:"127.0.0.1:2424"`
	IMAP        string `toml:"imap" doc:"Mail for programs, STARTTLS (RFC 9051, RFC 3501)." default:":143" demo:"127.0.0.1:2143"`
	IMAPS       string `toml:"imaps" doc:"Mail for programs, TLS from the first byte (RFC 8314)." default:":993" demo:"127.0.0.1:2993"`
	POP3        string `toml:"pop3" doc:"Fetching INBOX by POP3, STLS (RFC 1939)." default:"off" demo:"127.0.0.1:2110"`
	POP3S       string `toml:"pop3s" doc:"Fetching INBOX by POP3, TLS from the first byte (RFC 8314)." default:"off" demo:"off"`
	HTTP        string `toml:"http" doc:"What mail programs and ACME ask for, /healthz and /readyz; the status page and /metrics for web.monitors." default:":80" demo:"127.0.0.1:8080"`
	HTTPS       string `toml:"https" doc:"The same under TLS, with HTTP/2; and the MTA-STS policy." default:":443" demo:"127.0.0.1:8443"`
}

// Web is the section [web].
type Web struct {
	URL      string `toml:"url" doc:"Where the web doors are reached from everywhere, such as https://mail.example.com: for links in mail, by which people leave a mailing list (RFC 8058). Empty: mail has no such links." default:""`
	Monitors string `toml:"monitors" doc:"Addresses and networks that see the status page and /metrics, separated by spaces; others are told that there is nothing." default:"127.0.0.0/8 ::1"`
	// Proxies and ProxyHeader apply to the doors http and https only.
	Proxies     string   `toml:"proxies" doc:"Addresses and networks of web proxies (nginx, Caddy) in front of http and https, separated by spaces, beside server.proxies; for a proxy on this machine 127.0.0.1 ::1. A request from there counts as that of the client, and of the protocol, that the field proxy_header names. The doors of mail are not concerned." default:""`
	ProxyHeader string   `toml:"proxy_header" doc:"The field in which web proxies name the client, which each of them must add to or overwrite: X-Forwarded-For, X-Real-IP (both with X-Forwarded-Proto), or Forwarded (RFC 7239). The others are not believed." default:"X-Forwarded-For" oneof:"X-Forwarded-For X-Real-IP Forwarded"`
	Redirect    bool     `toml:"redirect" doc:"Send what people look at, or send passwords to, from http to https, where that door is open. What mail programs, ACME and probes ask for is answered at both." default:"true" demo:"false"`
	HSTS        Duration `toml:"hsts" doc:"How long a browser that came by https is told to use nothing else (Strict-Transport-Security). 0: it is told nothing." default:"4320h" demo:"0s" min:"0s" max:"17520h"`
	MTASTS      string   `toml:"mta_sts" doc:"The MTA-STS policy for the local domains, at https://mta-sts.DOMAIN/.well-known/mta-sts.txt: enforce lets others send mail here only under TLS with a good certificate, testing lets them report, none takes a policy back, off publishes none. It counts where DNS has the record _mta-sts." default:"testing" oneof:"off none testing enforce"`
	MTASTSAge   Duration `toml:"mta_sts_age" doc:"How long others keep the policy." default:"168h" min:"1h" max:"8760h"`
	MTASTSMX    string   `toml:"mta_sts_mx" doc:"The mail hosts that the policy names, separated by spaces. Empty: the server's name." default:""`
	// SessionIdle and the settings below apply to browser sessions.
	SessionIdle Duration `toml:"session_idle" doc:"How long a browser stays signed in that its person does not use." default:"336h" min:"1m" max:"8760h"`
	SessionLife Duration `toml:"session_life" doc:"How long a browser stays signed in at most." default:"2160h" min:"1m" max:"8760h"`
	// AdminFrom and AdminFresh apply to administrators who use a browser.
	AdminFrom  string   `toml:"admin_from" doc:"Addresses and networks from which people with the role Admin administer the server in a browser, separated by spaces; others are told that there is nothing. Empty: nobody does." default:"0.0.0.0/0 ::/0"`
	AdminFresh Duration `toml:"admin_fresh" doc:"How long after signing in an administrator may change something in the browser before the password is asked for again. 0: it never is." default:"1h" min:"0s" max:"8760h"`
	AdminReach string   `toml:"admin_reach" doc:"Addresses and networks that administrators may name in the browser for this server to replicate with (connection add, replica copy), beside the public Internet, separated by spaces: 10.0.0.0/8 for schools that reach each other there. The command line on the server's machine may name any." default:""`
	Sessions   int      `toml:"sessions_per_person" doc:"Browsers in which one person is signed in. A further one signs out the one that was used longest ago." default:"50" min:"1" max:"1000"`
}

// Push is the section [push].
type Push struct {
	PerPerson int      `toml:"connections_per_person" doc:"Connections on which the programs of one person wait for changes (EventSource, WebSocket)." default:"100" min:"1" max:"100000"`
	Web       bool     `toml:"web" doc:"Let people subscribe to pushes through the push services of browsers and telephones (Web Push), which the server then connects to." default:"true"`
	Life      Duration `toml:"subscription_life" doc:"How long such a subscription lasts unless the program prolongs it." default:"720h" min:"48h" max:"8760h"`
	PerDevice int      `toml:"subscriptions_per_person" doc:"How many of them one person has." default:"50" min:"1" max:"1000"`
	Private   string   `toml:"private" doc:"Addresses and networks that pushes may be sent to although they are not of the public Internet, separated by spaces: for a push service of one's own. What else a subscriber's URL leads to is refused." default:""`
	Contact   string   `toml:"contact" doc:"Where push services reach the server's people (VAPID), a mailto: or https: URL. Empty: the postmaster of server.domain." default:""`
}

// JMAP is the section [jmap].
type JMAP struct {
	Request            Size `toml:"request_size" doc:"How large a request may be (maxSizeRequest). Uploads may have limits.message_size." default:"10MB" min:"1MB" max:"50MB"`
	Calls              int  `toml:"calls_per_request" doc:"Method calls of one request (maxCallsInRequest)." default:"64" min:"16" max:"1000"`
	ObjectsInGet       int  `toml:"objects_in_get" doc:"Objects that one call asks for (maxObjectsInGet)." default:"1000" min:"100" max:"10000"`
	ObjectsInSet       int  `toml:"objects_in_set" doc:"Objects that one call changes (maxObjectsInSet)." default:"1000" min:"100" max:"10000"`
	ConcurrentRequests int  `toml:"requests_at_once" doc:"Requests that one session or app password has under way (maxConcurrentRequests)." default:"8" min:"1" max:"100"`
	ConcurrentUploads  int  `toml:"uploads_at_once" doc:"Uploads likewise (maxConcurrentUpload)." default:"4" min:"1" max:"100"`
	Uploads            Size `toml:"waiting_uploads" doc:"What the uploads of one person that no message uses may take. They are kept for a day; beyond this size, or 500 of them, the oldest are dropped." default:"200MB" min:"10MB" max:"10GB"`
}

// TLS is the section [tls].
type TLS struct {
	Certificate string `toml:"certificate" doc:"File with the certificate chain, PEM. Empty together with key: the server makes a self-signed one in the data folder." default:""`
	Key         string `toml:"key" doc:"File with the certificate's private key, PEM." default:""`
	Folder      string `toml:"folder" doc:"Folder with further certificates, for clients that ask for another name (SNI): NAME.pem with NAME.key, or NAME/fullchain.pem with NAME/privkey.pem. Files that change are read within a minute, and on SIGHUP." default:""`
	// WarnBefore applies to every certificate: from files, from ACME, self-signed.
	WarnBefore Duration `toml:"warn_before" doc:"How long before its end a certificate is warned about, once a day." default:"336h" min:"1h" max:"8760h"`
}

// ACME is the section [acme].
type ACME struct {
	Enabled    bool   `toml:"enabled" doc:"Ask the authority for certificates; whoever sets this agrees to its terms. The http door must be reachable at port 80, or https at 443, or dns_command be set." default:"false"`
	Directory  string `toml:"directory" doc:"The authority's directory URL." default:"https://acme-v02.api.letsencrypt.org/directory"`
	Email      string `toml:"email" doc:"Where the authority may write to." default:""`
	Names      string `toml:"names" doc:"What certificates are got for beside the server's name, separated by spaces: a word without a dot stands before every local domain, one with a dot for itself; * is a wildcard and needs dns_command. Names without an address in DNS are left out." default:"mta-sts autoconfig autodiscover"`
	Challenges string `toml:"challenges" doc:"How the authority may see that a name is ours: http-01, tls-alpn-01, separated by spaces. dns-01 is added by dns_command." default:"http-01 tls-alpn-01"`
	DNSCommand string `toml:"dns_command" doc:"A program that changes the public zone for dns-01: it is run with add or remove, the name of a TXT record and its value, and ends when the change can be seen." default:""`
	Root       string `toml:"root" doc:"File with the roots (PEM) that the authority's own certificate is checked with. Empty: those of the system." default:""`
	KeyID      string `toml:"key_id" doc:"External account binding, where the authority wants one: key id." default:""`
	MACKey     string `toml:"mac_key" doc:"The same: MAC key, base64url." default:""`
}

// Limits is the section [limits].
type Limits struct {
	MessageSize           Size     `toml:"message_size" doc:"Greatest message, as it travels." default:"50MB" min:"64KB" max:"2GB"`
	Recipients            int      `toml:"recipients" doc:"Recipients of one message." default:"1000" min:"100" max:"100000"`
	Connections           int      `toml:"connections" doc:"Open connections of all doors together." default:"20000" min:"1" max:"1000000"`
	CompressedConnections int      `toml:"compressed_connections" doc:"IMAP connections under DEFLATE (RFC 4978). One that waits keeps what its client has sent, at most 32 KB." default:"5000" min:"1" max:"1000000"`
	ConnectionsPerAddress int      `toml:"connections_per_address" doc:"Open connections from one address. Loopback is not counted." default:"200" min:"1" max:"1000000"`
	SessionsPerPerson     int      `toml:"sessions_per_person" doc:"Connections on which one person is signed in, over all doors. 0: no limit." default:"100" min:"0" max:"1000000"`
	Users                 int      `toml:"users" doc:"People who are signed in at one time. 0: no limit." default:"0" min:"0" max:"10000000"`
	Transactions          int      `toml:"transactions" doc:"Commands that are worked on at one time; others wait for their turn. One that waits for its client is not counted. 0: no limit." default:"5000" min:"0" max:"1000000"`
	MessageMemory         Size     `toml:"message_memory" doc:"Memory for messages on their way in or out, of all sessions together. Beyond it senders are told to come again." default:"256MB" min:"4MB" max:"1TB"`
	MessageMemoryShare    int      `toml:"message_memory_share" doc:"How much of it, in percent, the sessions of one address may have. Loopback may have all." default:"50" min:"1" max:"100"`
	IdleTimeout           Duration `toml:"idle_timeout" doc:"How long an IMAP client that has signed in may be silent (RFC 9051: at least 30 minutes)." default:"30m" min:"1m" max:"24h"`
	CommandTimeout        Duration `toml:"command_timeout" doc:"How long an SMTP client may be silent between commands (RFC 5321: at least 5 minutes)." default:"5m" min:"10s" max:"1h"`
	NotifyMailboxes       int      `toml:"notify_mailboxes" doc:"Mailboxes that IMAP sessions with NOTIFY (RFC 5465) have an eye on, of all sessions together; about 150 bytes each. A session for which there is no room is told so (NOTIFICATIONOVERFLOW)." default:"200000" min:"100" max:"100000000"`
	DataTimeout           Duration `toml:"data_timeout" doc:"How long a client may be silent within a message." default:"3m" min:"10s" max:"1h"`
	LoginTimeout          Duration `toml:"login_timeout" doc:"How long an IMAP or POP3 client may stay without signing in." default:"3m" min:"10s" max:"1h"`
	HandshakeTimeout      Duration `toml:"handshake_timeout" doc:"How long a TLS handshake may take." default:"30s" min:"1s" max:"5m"`
	MIMEDepth             int      `toml:"mime_depth" doc:"How deep parts of a message may nest; what is deeper is kept as it is and not looked into." default:"100" min:"1" max:"100"`
	HeaderBytes           Size     `toml:"header_bytes" doc:"How much of the header of a message or part is read; what lies beyond is kept as it is and not looked into." default:"1MB" min:"16KB" max:"1MB"`
	SignInFailures        int      `toml:"sign_in_failures" doc:"Failed sign-ins from one address (an IPv6 /64 counts as one) within sign_in_window after which nobody signs in from there for sign_in_ban. From the third on each has to wait, longer every time. The same wrong password again does not count. 0: no waiting and no bans." default:"10" min:"0" max:"1000000"`
	SignInWindow          Duration `toml:"sign_in_window" doc:"How long failed sign-ins are remembered." default:"10m" min:"1s" max:"24h"`
	SignInBan             Duration `toml:"sign_in_ban" doc:"How long an address is banned. doublet show bans lists them, doublet ban remove ends one." default:"1h" min:"1s" max:"720h"`
	POP3LoginDelay        Duration `toml:"pop3_login_delay" doc:"Least time between two POP3 sessions of one person. 0: none." default:"0s" min:"0s" max:"24h"`
	SignInLoopback        bool     `toml:"sign_in_loopback" doc:"Count failed sign-ins from this machine too." default:"false"`
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

// Search is the section [search].
type Search struct {
	Enabled        bool   `toml:"enabled" doc:"Keep a full-text index. Without one searches find the same, by looking at every text." default:"true"`
	Dir            string `toml:"dir" doc:"Folder of the index. Empty: search in the data folder. It can be lost without losing mail, and is in no backup." default:""`
	CacheSize      Size   `toml:"cache_size" doc:"Block cache of the index." default:"64MB" demo:"16MB" min:"1MB" max:"1TB"`
	MemtableSize   Size   `toml:"memtable_size" doc:"Size of one memtable of the index." default:"16MB" demo:"8MB" min:"256KB" max:"1GB"`
	DocumentsSize  Size   `toml:"documents_size" doc:"What is kept in memory of which documents there are; about 21 bytes a message." default:"32MB" demo:"8MB" min:"1MB" max:"1TB"`
	Attachments    bool   `toml:"attachments" doc:"Read attachments too: PDF, Office Open XML, OpenDocument." default:"true"`
	AttachmentSize Size   `toml:"attachment_size" doc:"Largest attachment that is read." default:"20MB" min:"64KB" max:"1GB"`
	PartText       Size   `toml:"part_text" doc:"How much text of one part of a message, or of one attachment, can be found." default:"1MB" min:"16KB" max:"64MB"`
	MessageText    Size   `toml:"message_text" doc:"How much text of one message can be found, and again of its attachments." default:"2MB" min:"64KB" max:"128MB"`
	Share          int    `toml:"share" doc:"How much of one processor indexing takes, in percent. Beyond it the index lags, and searches look at more texts themselves." default:"50" min:"1" max:"100"`
	RebuildShare   int    `toml:"rebuild_share" doc:"The same while mail is read that was there before the index." default:"25" min:"1" max:"100"`
}

// Directory is the section [directory].
type Directory struct {
	NameCacheEntries int  `toml:"name_cache_entries" doc:"Resolved names that stay in memory." default:"100000" min:"100" max:"10000000"`
	Argon2Workers    int  `toml:"argon2_workers" doc:"Passwords checked at one time; each takes 19 MiB. 0: half of the processors, at least one." default:"0" min:"0" max:"1024"`
	SCRAM            bool `toml:"scram" doc:"Offer SCRAM-SHA-256 (under TLS also SCRAM-SHA-256-PLUS) for signing in, and keep credentials for it with every password that is set from now on. App passwords always have some. Whoever has none yet must be given a new password before a mail program that prefers SCRAM can use it." default:"false" demo:"true"`
	Lookup           bool `toml:"lookup" doc:"Let people who are signed in look up names and addresses of people and groups as they write: the full client, the lite mode, JMAP programs." default:"true"`
}

// Verify is the section [verify].
type Verify struct {
	DMARC           string   `toml:"dmarc" doc:"How far the policy of the author's domain is followed where neither SPF nor DKIM proves the author: reject does what it asks for, junk delivers into Junk what it wants refused, mark only writes the result into the header, off looks at neither DKIM nor DMARC." default:"reject" oneof:"off mark junk reject"`
	SPF             string   `toml:"spf" doc:"The same for a sender's domain that says that the client may not send for it (fail), where DMARC has not proven the author. Forwarded mail fails like that." default:"mark" oneof:"off mark junk reject"`
	Trouble         string   `toml:"trouble" doc:"What is done where name servers do not answer and nothing else proves the author: accept takes and marks the message (into Junk, where the author's domain is known to ask for quarantine or reject), defer asks the sender to come again (451). It is never refused for good." default:"accept" oneof:"accept defer"`
	Blocklists      string   `toml:"blocklists" doc:"DNS block lists (DNSBL) that the client's address is looked up in, zones separated by spaces. Mail to postmaster and abuse arrives all the same." default:""`
	Blocked         string   `toml:"blocked" doc:"What is done with mail from a client that is in one of them." default:"reject" oneof:"junk reject"`
	Greylist        Duration `toml:"greylist" doc:"Greylisting: how long the first attempt of an unknown client, sender and recipient is put off. 0: off. It is kept in memory; a restart costs such senders one more attempt." default:"0s" min:"0s" max:"1h"`
	GreylistEntries int      `toml:"greylist_entries" doc:"How many of them are remembered." default:"100000" min:"1000" max:"10000000"`
	ARCTrusted      string   `toml:"arc_trusted" doc:"Domains, separated by spaces, whose ARC seals are trusted: where the last seal of a chain that passes is of one of them and says that DMARC passed when it got the message, the policy of the author's domain is not applied. Empty: none."`
	Exempt          string   `toml:"exempt" doc:"Addresses and networks of relays of one's own, separated by spaces." default:""`
}

// Filter is the section [filter].
type Filter struct {
	GreetingDelay  Duration `toml:"greeting_delay" doc:"How long a stranger at the smtp door waits for the greeting. Who speaks before it is refused: programs that send junk are in a hurry." default:"0s" min:"0s" max:"1m"`
	Milters        string   `toml:"milters" doc:"Milters that are asked in this order: host:port or unix:/path, separated by spaces." default:""`
	MilterTimeout  Duration `toml:"milter_timeout" doc:"How long a milter may take for an answer to a command; for a whole message ten times as long." default:"30s" min:"1s" max:"10m"`
	MilterFail     string   `toml:"milter_fail" doc:"What is done where a milter does not answer: tempfail asks the sender to come again (451), accept goes on without it." default:"tempfail" oneof:"tempfail accept"`
	Submissions    bool     `toml:"submissions" doc:"Ask milters and rspamd about mail of people who signed in, too." default:"false"`
	Rspamd         string   `toml:"rspamd" doc:"URL of an rspamd worker that is asked about each message, such as http://127.0.0.1:11333. What it calls spam goes into Junk, or is refused. Empty: none is asked." default:""`
	RspamdPassword string   `toml:"rspamd_password" doc:"The password that the worker asks for. Empty: none." default:""`
	RspamdTimeout  Duration `toml:"rspamd_timeout" doc:"How long it may take." default:"20s" min:"1s" max:"10m"`
	RspamdFail     string   `toml:"rspamd_fail" doc:"The same as milter_fail." default:"accept" oneof:"tempfail accept"`
}

// Sign is the section [sign].
type Sign struct {
	DKIM bool `toml:"dkim" doc:"Sign mail that leaves for elsewhere, for every domain that has keys (doublet domain key); a new domain gets keys by itself. doublet dns show prints what to publish." default:"true" demo:"false"`
	ARC  bool `toml:"arc" doc:"Seal mail of other domains that this server sends on (forwards, copies of lists) with an ARC set under the key of the domain that sends it on, where dkim is on and the domain has an RSA key. It tells the next server the results of SPF, DKIM and DMARC that the message had here." default:"true"`
}

// Reports is the section [reports].
type Reports struct {
	TLS     bool   `toml:"tls" doc:"Send TLS reports (TLSRPT) once a day to the domains that ask for them: how TLS with their mail servers went. They are sent only where sign.dkim is on and the first domain has a key." default:"true" demo:"false"`
	DMARC   bool   `toml:"dmarc" doc:"Send DMARC reports once a day to the domains that ask for them: the servers that sent mail in their name, with the results of SPF, DKIM and DMARC here. They are sent under the same condition as TLS reports, and need verify.dmarc." default:"true" demo:"false"`
	Address string `toml:"address" doc:"Local part of the address to which others send their reports, at every domain here: dns show prints records that name it. What comes there is delivered as ever, and its figures are kept for doublet report. Reports of this server come from it, at the first domain. Anything but postmaster or abuse must be an address of somebody." default:"postmaster"`
}

// Router is the section [router].
type Router struct {
	Send             bool     `toml:"send" doc:"Send mail for other domains. Without it, it waits in mail.box." default:"true" demo:"false"`
	Smarthost        string   `toml:"smarthost" doc:"host or host:port that takes the mail of all domains without a route. Empty: the servers that DNS names." default:""`
	SmarthostTLS     string   `toml:"smarthost_tls" doc:"TLS with the smarthost: may (where it offers it), encrypt (demanded), verify (demanded, with a certificate of its name), implicit (verify, from the first byte), none." default:"verify" oneof:"none may encrypt verify implicit"`
	SmarthostUser    string   `toml:"smarthost_user" doc:"Who signs in there (SCRAM-SHA-256, PLAIN, LOGIN). Empty: nobody does." default:""`
	SmarthostSecret  string   `toml:"smarthost_password_file" doc:"File with the password for the smarthost, on its first line." default:""`
	Boxes            int      `toml:"mail_boxes" doc:"mail.box databases that messages are spread over." default:"1" min:"1" max:"8"`
	RetryFirst       Duration `toml:"retry_first" doc:"Time to the second attempt; it doubles with every further one." default:"5m" min:"1s" max:"24h"`
	RetryMax         Duration `toml:"retry_max" doc:"Longest time between two attempts." default:"4h" min:"1s" max:"72h"`
	Expire           Duration `toml:"expire" doc:"How long a message is tried before it comes back." default:"120h" min:"1m" max:"720h"`
	DelayReport      Duration `toml:"delay_report" doc:"After how long its sender is told that a message is still under way. 0: never." default:"4h" min:"0s" max:"720h"`
	KeepDead         Duration `toml:"keep_dead" doc:"How long a message is kept that can neither be delivered nor returned." default:"720h" min:"1h" max:"8760h"`
	Connections      int      `toml:"connections" doc:"Open connections to other mail servers." default:"200" min:"1" max:"10000"`
	PerDestination   int      `toml:"connections_per_destination" doc:"Of them, to one destination." default:"20" min:"1" max:"1000"`
	PerConnection    int      `toml:"messages_per_connection" doc:"Messages that go over one connection." default:"200" min:"1" max:"100000"`
	IdleTimeout      Duration `toml:"idle_timeout" doc:"How long a connection is kept for more mail." default:"5s" min:"0s" max:"5m"`
	ConnectTimeout   Duration `toml:"connect_timeout" doc:"How long connecting to one address may take." default:"30s" min:"1s" max:"5m"`
	Timeout          Duration `toml:"timeout" doc:"How long one reply of another server may take." default:"5m" min:"1s" max:"1h"`
	MTASTS           bool     `toml:"mta_sts" doc:"Heed the MTA-STS policies of other domains." default:"true"`
	MessagesPerDay   int      `toml:"messages_per_day" doc:"Messages that one person may send to other domains in a day (UTC); who has the role Bulk Sender may send more. 0: no limit." default:"0" min:"0" max:"10000000"`
	RecipientsPerDay int      `toml:"recipients_per_day" doc:"The same, counted in recipients." default:"0" min:"0" max:"10000000"`
	KeepTrace        Duration `toml:"keep_trace" doc:"How long it is remembered where messages went (doublet trace). 0: not at all." default:"168h" min:"0s" max:"8760h"`
}

// Cluster is the section [cluster].
type Cluster struct {
	Direct        string `toml:"direct" doc:"Where mates connect for probes, large parts of messages and forwarded sessions, and servers that join: host:port, with an empty host for every address of the machine or of the interface. TLS with certificates of the cluster on both sides. off: this server takes no part in its cluster." default:":7223" demo:"off"`
	Routes        string `toml:"routes" doc:"Where the message servers (NATS) of mates connect, in the same way. It is not opened where nats is set." default:":7222" demo:"off"`
	Interface     string `toml:"interface" doc:"Network interface for the traffic of the cluster, such as eth1: both addresses are on its first address. Empty: none of its own." default:""`
	Advertise     string `toml:"advertise" doc:"Host name or address under which mates reach this server. Empty: the host of direct, or the interface's address, or server.name." default:""`
	NATS          string `toml:"nats" doc:"URLs of a NATS cluster that stands elsewhere, separated by commas: nats://host:4222 or tls://host:4222, with user:password@ where it wants that. It carries the messages between members, sealed; all members name the same. Empty: the servers carry them themselves." default:""`
	NATSCreds     string `toml:"nats_credentials" doc:"File with the credentials for it (JWT and seed, as nsc writes them). Empty: none." default:""`
	NATSKey       string `toml:"nats_nkey" doc:"File with the seed of an NKey for it. Empty: none." default:""`
	NATSCA        string `toml:"nats_ca" doc:"File with the roots (PEM) that its certificate is checked with. Empty: those of the system." default:""`
	Requests      int    `toml:"requests" doc:"Requests of one mate that are worked on at one time, and requests to one mate that are under way; others wait." default:"64" min:"1" max:"1000"`
	RequestMemory Size   `toml:"request_memory" doc:"The same in bytes of what they carry." default:"4MB" min:"256KB" max:"256MB"`
	Replicas      int    `toml:"replicas" doc:"Replicas that a database gets, on as many members, unless doublet cluster replicas says another number for it; 0: one on every member, up to 16. The directory is on all." default:"2" min:"0" max:"16"`
	Replicators   int    `toml:"replicators" doc:"Cluster Replicators for each mate. A database always has the same one, which keeps its order." default:"1" min:"1" max:"16"`
	Streams       int    `toml:"streams" doc:"Streams that one mate may have open to this server: large parts of messages, forwarded sessions." default:"5000" min:"16" max:"1000000"`
}

// Replica is the section [replica].
type Replica struct {
	Serve        bool `toml:"serve" doc:"Let people and other servers replicate at /replica/ of the web doors, under TLS, what the access lists grant to who signs in." default:"true"`
	Requests     int  `toml:"requests" doc:"Requests of replication that are worked on at one time; others are told to come again." default:"64" min:"1" max:"10000"`
	PerPerson    int  `toml:"requests_per_person" doc:"How many of them of one person; as many more may wait for changes." default:"8" min:"1" max:"10000"`
	ObjectMemory Size `toml:"object_memory" doc:"Memory for large parts of messages that have come from another replica before the message that they belong to. The largest one that is taken is half of it." default:"256MB" demo:"64MB" min:"8MB" max:"1TB"`
}

// DNS is the section [dns].
type DNS struct {
	Servers      string   `toml:"servers" doc:"Resolvers to ask, addresses or address:port, separated by spaces. Empty: those of /etc/resolv.conf. Best is one on this machine that validates DNSSEC." default:""`
	Trusted      string   `toml:"trusted" doc:"Those of the resolvers (addresses) that validate DNSSEC and are reached over a network that nobody else writes to: their word decides whether DANE counts. Loopback always is." default:""`
	Timeout      Duration `toml:"timeout" doc:"How long one resolver is waited for; each is asked twice." default:"3s" min:"100ms" max:"1m"`
	CacheEntries int      `toml:"cache_entries" doc:"Answers that stay in memory." default:"20000" min:"100" max:"10000000"`
}

// OAuth is the section [oauth].
type OAuth struct {
	Issuer   string `toml:"issuer" doc:"URL of the issuer, as it stands in its tokens. Empty: tokens are not taken." default:""`
	Audience string `toml:"audience" doc:"What this server is called at the issuer; a token must be for it." default:""`
	Claim    string `toml:"claim" doc:"The claim of a token that holds the person's address, short name or full name." default:"email"`
}

// Log is the section [log].
type Log struct {
	Level    string `toml:"level" doc:"The least important messages that are shown." default:"info" demo:"warn" oneof:"debug info warn error"`
	Format   string `toml:"format" doc:"How a message is written." default:"text" oneof:"text json"`
	Messages bool   `toml:"messages" doc:"A line for each message that arrives, for each outcome of its delivery, and for each recipient refused at RCPT (20 a session), at the level info." default:"true"`
}

// Default returns the settings of `doublet serve` without a file, variables or flags.
func Default() Config { return preset("default") }

// Demo returns the settings of `doublet demo`: every door on loopback, on ports that need no privilege.
func Demo() Config { return preset("demo") }
