package lab

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"doublet/test/external"
)

// Domain and mail host of the provider.
const (
	providerDomain = "provider.example"
	providerHost   = "mx.provider.example"
)

// provider is a large mail provider: Postfix with rspamd, which checks incoming mail (SPF, DKIM, DMARC), and opendkim,
// which signs outgoing mail. Mail is stored in Maildirs.
type provider struct {
	*host
	records string // its DNS records
}

// openProvider starts the provider. The caller must add its records to the zone.
func openProvider(t *testing.T, h *host) *provider {
	t.Helper()
	external.Need(t, "postfix", "rspamd", "opendkim")
	p := &provider{host: h}
	dkim := p.keys(t)
	p.records += providerDomain + ". IN MX 10 " + providerHost + ".\n" +
		providerHost + ". IN A " + providerAddress + "\n" +
		"3.113.0.203.in-addr.arpa. IN PTR " + providerHost + ".\n" +
		txt(providerDomain+".", "v=spf1 mx -all") +
		txt("_dmarc."+providerDomain+".", "v=DMARC1; p=reject") +
		txt("lab._domainkey."+providerDomain+".", "v=DKIM1; k=rsa; p="+dkim)
	p.openDKIM(t)
	p.rspamd(t)
	p.postfix(t)
	return p
}

func (p *provider) path(name ...string) string {
	return filepath.Join(append([]string{p.dir}, name...)...)
}

// keys creates the DKIM key and returns its public half. It also creates the certificate of the mail host with its TLSA
// record.
func (p *provider) keys(t *testing.T) string {
	t.Helper()
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	check(err)
	write(t, p.path("dkim.pem"),
		string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})))
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	check(err)

	tlsKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: providerHost}, DNSNames: []string{providerHost},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &tlsKey.PublicKey, tlsKey)
	check(err)
	private, err := x509.MarshalPKCS8PrivateKey(tlsKey)
	check(err)
	write(t, p.path("tls.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))+
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	spki, err := x509.MarshalPKIXPublicKey(&tlsKey.PublicKey)
	check(err)
	sum := sha256.Sum256(spki)
	p.records += "_25._tcp." + providerHost + ". IN TLSA 3 1 1 " + hex.EncodeToString(sum[:]) + "\n"
	return base64.StdEncoding.EncodeToString(public)
}

func (p *provider) openDKIM(t *testing.T) {
	t.Helper()
	if err := os.Chmod(p.path("dkim.pem"), 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, p.path("opendkim.conf"), `Mode s
Domain `+providerDomain+`
Selector lab
KeyFile `+p.path("dkim.pem")+`
Socket inet:8891@0.0.0.0
Background no
RequireSafeKeys no
OversignHeaders From
`)
	p.start(t, "opendkim", "-x", p.path("opendkim.conf"))
	p.listens(t, providerAddress+":8891")
}

func (p *provider) rspamd(t *testing.T) {
	t.Helper()
	local := p.path("rspamd", "local.d")
	write(t, filepath.Join(local, "options.inc"), "dns { nameserver = [\""+netAddress+
		"\"]; }\nlocal_addrs = [127.0.0.0/8];\n")
	write(t, filepath.Join(local, "worker-proxy.inc"), `milter = yes;
bind_socket = "0.0.0.0:11332";
upstream "local" { default = yes; self_scan = yes; }
`)
	for _, off := range []string{"worker-normal.inc", "worker-controller.inc", "worker-fuzzy.inc", "rbl.conf",
		"surbl.conf", "fuzzy_check.conf", "phishing.conf", "asn.conf", "multimap.conf", "mid.conf", "whitelist.conf",
		"redirectors.conf", "dkim_signing.conf", "arc.conf"} {
		write(t, filepath.Join(local, off), "enabled = false;\n")
	}
	write(t, filepath.Join(local, "milter_headers.conf"), `use = ["authentication-results", "x-spamd-result"];
extended_spam_headers = true;
skip_local = true;
skip_authenticated = true;
`)
	write(t, filepath.Join(local, "dmarc.conf"), "actions { quarantine = \"add_header\"; reject = \"reject\"; }\n")
	for _, dir := range []string{"rspamd-run", "rspamd-db"} {
		if err := os.MkdirAll(p.path(dir), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p.path(dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(local, "logging.inc"), "type = \"console\";\nlevel = \"notice\";\n")
	p.start(t, "rspamd", "-f", "-i", "-c", "/etc/rspamd/rspamd.conf", "--var", "LOCAL_CONFDIR="+p.path("rspamd"),
		"--var", "RUNDIR="+p.path("rspamd-run"), "--var", "DBDIR="+p.path("rspamd-db"))
	p.listens(t, providerAddress+":11332")
}

func (p *provider) postfix(t *testing.T) {
	t.Helper()
	for _, dir := range []string{"spool", "data", "mail"} {
		if err := os.MkdirAll(p.path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(p.path("mail"), 0o777); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("chown", "postfix", p.path("data")).CombinedOutput(); err != nil {
		t.Fatalf("chown: %v %s", err, out)
	}
	write(t, p.path("postfix", "main.cf"), fmt.Sprintf(`compatibility_level = 3.6
queue_directory = %[1]s/spool
data_directory = %[1]s/data
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
mail_owner = postfix
setgid_group = postdrop
myhostname = %[2]s
mydomain = %[3]s
myorigin = %[3]s
mydestination =
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
virtual_mailbox_domains = %[3]s
virtual_mailbox_maps = inline:{dora@%[3]s=dora/, emil@%[3]s=emil/}
virtual_mailbox_base = %[1]s/mail
virtual_uid_maps = static:65534
virtual_gid_maps = static:65534
maillog_file = %[1]s/mail.log
maillog_file_prefixes = %[1]s
smtpd_relay_restrictions = permit_mynetworks, reject_unauth_destination
smtpd_tls_security_level = may
smtpd_tls_chain_files = %[1]s/tls.pem
smtp_tls_security_level = may
smtp_tls_loglevel = 1
smtpd_tls_loglevel = 1
smtpd_milters = inet:127.0.0.1:11332, inet:127.0.0.1:8891
non_smtpd_milters = inet:127.0.0.1:8891
milter_default_action = tempfail
minimal_backoff_time = 5s
maximal_backoff_time = 10s
queue_run_delay = 5s
alias_maps =
alias_database =
`, p.dir, providerHost, providerDomain))
	master, err := os.ReadFile("/usr/share/postfix/master.cf.dist")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(master)) {
		// Fields: service type private unpriv chroot …. No service runs in a chroot, because the queue folder has no
		// system files.
		if f := strings.Fields(line); len(f) > 7 && !strings.HasPrefix(line, "#") && f[4] == "y" {
			f[4] = "n"
			line = strings.Join(f, " ") + "\n"
		}
		out.WriteString(line)
	}
	write(t, p.path("postfix", "master.cf"), out.String())
	p.start(t, "postfix", "-c", p.path("postfix"), "start-fg")
	t.Cleanup(func() {
		_, _ = p.Try("", "postfix", "-c", p.path("postfix"), "stop")
		if t.Failed() {
			log, _ := os.ReadFile(p.path("mail.log"))
			t.Logf("the provider's Postfix:\n%s", tail(log, 6000))
		}
	})
	p.listens(t, providerAddress+":25")
}

// send sends a message from a user of the provider through its signer.
func (p *provider) send(t *testing.T, from, to, subject string, more ...string) {
	t.Helper()
	p.Run(t, "", append([]string{"swaks", "--server", "127.0.0.1:25", "--ehlo", "localhost", "--from", from, "--to", to,
		"--header", "Subject: " + subject}, more...)...)
}

// inbox waits for a message with the given subject in a user's Maildir.
func (p *provider) inbox(t *testing.T, person, subject string) string {
	t.Helper()
	var found string
	wait(t, "mail "+subject+" for "+person+" at the provider", func() (string, bool) {
		names, _ := filepath.Glob(p.path("mail", person, "new", "*"))
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err == nil && strings.Contains(string(b), "Subject: "+subject+"\n") {
				found = string(b)
				return "", true
			}
		}
		return fmt.Sprintf("%d messages", len(names)), false
	})
	return found
}
