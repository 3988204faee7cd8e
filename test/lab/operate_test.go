package lab

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"doublet/test/external"
	"doublet/test/netns"
	"doublet/test/program"
)

// Domain and host name of the document.
const (
	townDomain = "example.org"
	townHost   = "mx.example.org"
)

// Passwords that the people choose at the prompts.
const (
	adaPassword   = "correct horse battery staple"
	gracePassword = "a moth in relay seventy"
)

// step is a command line of the document and the section that contains it.
type step struct{ section, line string }

// documented returns the command lines of the document: its indented lines, without comments.
func documented(t *testing.T, path string) (steps []step) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	section := ""
	for l := range strings.Lines(string(b)) {
		l = strings.TrimRight(l, "\n")
		if title, ok := strings.CutPrefix(l, "## "); ok {
			section = title
		}
		code, ok := strings.CutPrefix(l, "    ")
		code = strings.TrimSpace(code)
		if !ok || code == "" || strings.HasPrefix(code, "- ") || strings.HasPrefix(code, "#") {
			continue
		}
		if i := strings.Index(code, "  #"); i >= 0 {
			code = strings.TrimSpace(code[:i])
		}
		steps = append(steps, step{section, code})
	}
	return steps
}

// elsewhere lists command lines that the lab cannot run, with what it does instead.
var elsewhere = map[string]string{
	"apt-get install unbound":                 "the stub zone's server is the resolver that validates",
	"make deb":                                "made before the town is opened, which has no Go",
	"hostnamectl set-hostname " + townHost:    "there is no systemd in the town; the name is set in doublet.toml",
	"systemctl status doublet":                "the doors answer",
	"apt-get install ./doublet_NEW_amd64.deb": "the same package again",
}

func TestMain(m *testing.M) { program.Main(m) }

// TestOperate runs doc/operate.md line by line and then checks the mail exchange with a large provider.
func TestOperate(t *testing.T) {
	netns.Need(t)
	external.Need(t, "postfix", "rspamd", "opendkim", "pebble", "swaks", "curl", "dpkg-deb")
	n := connect(t, "")
	p := openProvider(t, n.provider)
	root := openAuthority(t, n.dir)
	w := openTown(t, n.town)
	deb := buildPackage(t, w)
	o := &newcomer{t: t, net: n, town: w, provider: p, root: root, deb: deb}
	o.publish("")
	toml, inTOML := "", false
	for _, s := range documented(t, "../../doc/operate.md") {
		if !strings.ContainsAny(s.section[:1], "012345678") || strings.HasPrefix(s.section, "9") ||
			strings.HasPrefix(s.section, "10") {
			break
		}
		// The settings for doublet.toml form a block of their own.
		if strings.HasPrefix(s.line, "[") || inTOML && strings.Contains(s.line, " = ") &&
			!strings.HasPrefix(s.line, "doublet") {
			inTOML = true
			toml += s.line + "\n"
			continue
		}
		if inTOML {
			inTOML = false
			o.settings(toml)
		}
		if why, ok := elsewhere[s.line]; ok {
			t.Logf("$ %s (%s)", s.line, why)
			continue
		}
		o.carryOut(s)
	}
	t.Run("mail from the provider", o.mailIn)
	t.Run("mail to the provider", o.mailOut)
	t.Run("forged mail", o.forged)
	t.Run("a bounce comes back", o.bounce)
	t.Run("mail programs configure themselves", o.autoconfig)
	t.Run("stop, check, start", o.restart)
}

func buildPackage(t *testing.T, w *town) string {
	t.Helper()
	path, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("../../packaging/deb/build", path, w.dir).Output()
	if err != nil {
		t.Fatalf("make deb: %v\n%s", err, out)
	}
	b, err := os.ReadFile(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(strings.TrimSpace(string(out)))
	if err := os.WriteFile(w.in("root/"+name), b, 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// newcomer follows the instructions of the document.
type newcomer struct {
	t        *testing.T
	net      *internet
	town     *town
	provider *provider
	root     string
	deb      string
}

// publish sets the DNS zone: the provider's records, the address and reverse record of the town's host, and records,
// the output of `doublet dns show`.
func (o *newcomer) publish(records string) {
	o.net.dns.Set(o.provider.records + townHost + ". IN A " + townAddress + "\n2.113.0.203.in-addr.arpa. IN PTR " +
		townHost + ".\n" + records)
	o.net.dns.Secure(".")
}

// settings writes the settings of the document and those that only the lab needs, such as its own authority.
func (o *newcomer) settings(toml string) {
	root := o.town.in("etc/ssl/lab-root.pem")
	b, err := os.ReadFile(o.root)
	if err != nil {
		o.t.Fatal(err)
	}
	write(o.t, root, string(b))
	o.town.configure(o.t, toml+"[acme]\ndirectory = \"https://"+netAddress+
		":14000/dir\"\nroot = \"/etc/ssl/lab-root.pem\"\n[dns]\nservers = \""+netAddress+"\"\ntrusted = \""+
		netAddress+"\"\n")
}

// carryOut runs one line.
func (o *newcomer) carryOut(s step) {
	t, w := o.t, o.town
	t.Helper()
	switch l := s.line; {
	case strings.HasPrefix(l, "doublet()"):
		w.prelude = l
	case strings.HasPrefix(l, "apt-get install ./doublet_"):
		w.must(t, "dpkg -i /root/"+o.deb, "")
	case strings.HasPrefix(l, "doublet init"):
		w.must(t, l, adaPassword+"\n")
	case l == "systemctl enable --now doublet":
		w.startUnit(t)
	case l == "doublet health":
		want(t, w.must(t, l, ""), "ok")
	case l == "doublet certificate show":
		wait(t, "a certificate from the authority", func() (string, bool) {
			out, _ := w.shell(l, "")
			return out, strings.Contains(out, townHost) && strings.Contains(strings.ToLower(out), "acme") &&
				strings.Contains(out, "Pebble")
		})
		w.must(t, l, "")
		write(t, w.path("roots.pem"), authorityRoots(t, o.root))
	case l == "doublet dns show":
		// The lab's zone is signed, so the record for signed zones, which is commented out, is published too.
		o.publish(strings.Replace(w.must(t, l, ""), "; _25._tcp", "_25._tcp", 1))
	case l == "doublet dns check":
		wait(t, "dns check to be content", func() (string, bool) {
			out, err := w.shell(l, "")
			return out, err == nil
		})
		w.must(t, l, "")
	case l == "doublet certificate renew":
		w.must(t, l, "")
		wait(t, "certificates of the names that are in DNS now", func() (string, bool) {
			out, _ := w.shell("doublet certificate show", "")
			return out, strings.Count(out, "Pebble") == 4
		})
	case strings.HasPrefix(l, "doublet user add"):
		w.must(t, l, gracePassword+"\n")
	case strings.HasPrefix(l, "doublet user import"):
		write(t, w.in("root/people.csv"), "fullname,shortname,password\nAlan Turing,alan,an enigma of a password\n")
		_ = os.Chmod(w.in("root"), 0o755)
		w.must(t, l, "")
	case strings.HasPrefix(l, "doublet "):
		w.must(t, l, "")
	case strings.HasPrefix(l, "install -d"), strings.HasPrefix(l, "chown "):
		w.must(t, l, "")
	default:
		t.Fatalf("doc/operate.md, %s: %q is nothing that the lab can do: teach it, or say in elsewhere what it does "+
			"instead", s.section, l)
	}
}

func (o *newcomer) mailIn(t *testing.T) {
	o.provider.send(t, "dora@"+providerDomain, "grace@"+townDomain, "from the provider")
	got := o.town.inbox(t, "grace", gracePassword, "INBOX", "from the provider")
	want(t, got, "Authentication-Results: "+townHost, "spf=pass", "dkim=pass", "dmarc=pass",
		"Received: from "+providerHost, "TLS")
	o.provider.send(t, "dora@"+providerDomain, "postmaster@"+townDomain, "for the postmaster")
	o.town.inbox(t, "ada", adaPassword, "INBOX", "for the postmaster")
}

func (o *newcomer) mailOut(t *testing.T) {
	o.submit(t, "dora@"+providerDomain, "to the provider")
	got := o.provider.inbox(t, "dora", "to the provider")
	// The results of rspamd, and Postfix's trace of the connection.
	want(t, got, "dkim=pass", "spf=pass", "dmarc=pass", "from "+townHost, "with ESMTPS", "DKIM-Signature: ")
	if strings.Contains(got, "X-Spam: Yes") || strings.Contains(got, "Bcc:") {
		t.Errorf("what arrived:\n%s", got)
	}
	trace := o.town.must(t, "doublet trace dora@"+providerDomain, "")
	want(t, trace, providerHost, "250")
	if !strings.Contains(strings.ToLower(trace), "dane") {
		t.Errorf("the provider publishes TLSA, and the trace does not say DANE:\n%s", trace)
	}
}

// submit sends a message as grace over TLS and verifies the certificate.
func (o *newcomer) submit(t *testing.T, to, subject string) {
	t.Helper()
	write(t, o.town.path("message"), "From: Grace Hopper <grace@"+townDomain+">\r\nTo: <"+to+">\r\nSubject: "+subject+
		"\r\n\r\nHello.\r\n")
	out, err := exec.Command("curl", "-s", "-S", "--cacert", o.town.path("roots.pem"), "--resolve",
		townHost+":465:"+townAddress, "smtps://"+townHost, "-u", "grace:"+gracePassword,
		"--mail-from", "grace@"+townDomain, "--mail-rcpt", to, "-T", o.town.path("message")).CombinedOutput()
	if err != nil {
		t.Fatalf("submit: %v\n%s", err, out)
	}
}

func (o *newcomer) forged(t *testing.T) {
	// A sender in the provider's name at an address that the provider does not send from.
	out, err := exec.Command("swaks", "--server", townAddress+":25", "--ehlo", "liar.example", "--from",
		"dora@"+providerDomain, "--to", "grace@"+townDomain, "--header", "Subject: forged").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "5.7.1") {
		t.Errorf("forged mail of a domain with p=reject: %v\n%s", err, out)
	}
	// The same in the name of our own domain.
	out, err = exec.Command("swaks", "--server", townAddress+":25", "--ehlo", "liar.example", "--from",
		"grace@"+townDomain, "--to", "ada@"+townDomain, "--header", "Subject: forged too").CombinedOutput()
	if err == nil {
		if got := o.town.inbox(t, "ada", adaPassword, "Junk", "forged too"); got == "" {
			t.Errorf("forged mail in our own name was taken:\n%s", out)
		}
	}
	// The server must not relay for strangers.
	out, err = exec.Command("swaks", "--server", townAddress+":25", "--from", "x@liar.example", "--to",
		"dora@"+providerDomain).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "550 5.7.1") {
		t.Errorf("relayed for a stranger: %v\n%s", err, out)
	}
}

func (o *newcomer) bounce(t *testing.T) {
	o.submit(t, "nobody@"+providerDomain, "to nobody")
	got := o.town.inbox(t, "grace", gracePassword, "INBOX", "Delivery")
	want(t, got, "multipart/report", "report-type=delivery-status", "nobody@"+providerDomain, "5.1.1")
}

func (o *newcomer) autoconfig(t *testing.T) {
	get := func(host, path string) string {
		out, err := exec.Command("curl", "-s", "-S", "-f", "--cacert", o.town.path("roots.pem"), "--resolve",
			host+":443:"+townAddress, "https://"+host+path).CombinedOutput()
		if err != nil {
			t.Errorf("https://%s%s: %v\n%s", host, path, err, out)
		}
		return string(out)
	}
	want(t, get(townHost, "/healthz"), "")
	want(t, get("autoconfig."+townDomain, "/mail/config-v1.1.xml?emailaddress=grace@"+townDomain),
		"<hostname>"+townHost+"</hostname>", "<port>993</port>", "<port>465</port>")
	want(t, get("mta-sts."+townDomain, "/.well-known/mta-sts.txt"), "version: STSv1", "mx: "+townHost)
}

func (o *newcomer) restart(t *testing.T) {
	o.town.stopUnit(t)
	o.town.must(t, "doublet check --deep", "")
	o.town.startUnit(t)
	o.town.inbox(t, "grace", gracePassword, "INBOX", "from the provider")
}
