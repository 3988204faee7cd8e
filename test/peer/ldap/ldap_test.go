// Package ldap compares the LDAP server with OpenLDAP's slapd: the same entries, the same requests, in one run.
package ldap

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"doublet/test/external"
	"doublet/test/program"
	"doublet/wire/ldap"
)

func TestMain(m *testing.M) { program.Main(m) }

const (
	people = 10_000
	lanes  = 4
	round  = 2 * time.Second
	rounds = 3
)

// entries returns the people as LDIF.
func entries() string {
	var b strings.Builder
	b.WriteString("dn: dc=example,dc=com\nobjectClass: dcObject\nobjectClass: organization\no: Example\n" +
		"dc: example\n\ndn: ou=people,dc=example,dc=com\nobjectClass: organizationalUnit\nou: people\n\n")
	for i := range people {
		b.WriteString(strings.ReplaceAll("dn: uid=user#,ou=people,dc=example,dc=com\nobjectClass: inetOrgPerson\n"+
			"cn: Person Number #\nsn: #\ngivenName: Person Number\ndisplayName: Person Number #\nuid: user#\n"+
			"mail: user#@example.com\n\n", "#", fmt.Sprint(i)))
	}
	return b.String()
}

// slapd starts slapd with indexes of uid and mail.
func slapd(t *testing.T, ldif string) (address string) {
	t.Helper()
	path := external.Need(t, "slapd")[0]
	dir := t.TempDir()
	port := program.FreePorts(t, 1)[0]
	conf := strings.ReplaceAll(`include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
loglevel 0
threads 4
database mdb
maxsize 1073741824
suffix "dc=example,dc=com"
rootdn "cn=chief,dc=example,dc=com"
rootpw chief
directory DIR
index uid,mail,objectClass eq
`, "DIR", dir)
	file := filepath.Join(dir, "slapd.conf")
	for name, text := range map[string]string{file: conf, filepath.Join(dir, "ldif"): ldif} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program.Run(t, "", nil, path, "-Ta", "-q", "-f", file, "-l", filepath.Join(dir, "ldif"))
	cmd := exec.Command(path, "-f", file, "-h", "ldap://127.0.0.1:"+port, "-d", "0")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() })
	return "127.0.0.1:" + port
}

// lane is a connection that is signed in.
type lane struct {
	net.Conn
	in []byte
}

func connect(t *testing.T, address, dn, password string) *lane {
	t.Helper()
	var c net.Conn
	var err error
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if c, err = net.Dial("tcp", address); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	body := append([]byte{2, 1, 3, 4, byte(len(dn))}, dn...)
	body = append(append(body, 0x80, byte(len(password))), password...)
	l := &lane{Conn: c}
	if _, err := l.do(ldap.AppendRequest(nil, 1, ldap.OpBind, body)); err != nil {
		t.Fatal(err)
	}
	return l
}

// do sends a request and reads up to its result. It returns the number of entries.
func (l *lane) do(request []byte) (found int, err error) {
	if _, err := l.Write(request); err != nil {
		return 0, err
	}
	for {
		n, err := ldap.Frame(l.in, 1<<20)
		if err != nil {
			return found, err
		}
		if n > 0 && len(l.in) >= n {
			m, err := ldap.Parse(l.in[:n])
			l.in = l.in[n:]
			switch {
			case err != nil:
				return found, err
			case m.Op == ldap.OpSearchEntry:
				found++
				continue
			case len(m.Body) < 3 || m.Body[2] != 0:
				return found, fmt.Errorf("result %q", m.Body)
			}
			return found, nil
		}
		b := make([]byte, 4096)
		k, err := l.Read(b)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return found, err
		}
		l.in = append(l.in, b[:k]...)
	}
}

// measure returns the number of searches in a second.
func measure(t *testing.T, all []*lane) float64 {
	t.Helper()
	var done atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for i, l := range all {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), uint64(done.Load())))
			for time.Since(began) < round {
				n := r.IntN(people)
				f := ldap.Filter{Kind: ldap.FilterEqual, Type: "uid", Value: fmt.Sprint("user", n)}
				if n%2 == 0 {
					f.Type, f.Value = "mail", f.Value+"@example.com"
				}
				q := ldap.Search{Base: "dc=example,dc=com", Scope: ldap.ScopeSubtree, Filter: f,
					Attributes: []string{"cn", "mail", "uid"}}
				found, err := l.do(ldap.AppendRequest(nil, 2, ldap.OpSearch, ldap.AppendSearch(nil, &q)))
				if err != nil || found != 1 {
					t.Errorf("%s: %d entries, %v", f.Value, found, err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(began).Seconds()
}

// TestSearchRate measures searches by uid and by mail at both servers in turn and prints the ratio of the medians. The
// figures of one run are comparable with each other only.
func TestSearchRate(t *testing.T) {
	external.Need(t, "slapd")
	ldif := entries()
	theirs := slapd(t, ldif)
	s := program.Demo(t)
	file := filepath.Join(t.TempDir(), "people.ldif")
	if err := os.WriteFile(file, []byte(ldif), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Doublet("import", "people", file, "--format", "ldif")
	s.Doublet("user", "add", "Bench Mark", "--short", "benchmark", "--password", "secret-benchmark")
	var ours, peers []*lane
	for range lanes {
		ours = append(ours, connect(t, "127.0.0.1:"+s.Port["ldap"], "uid=benchmark,ou=people,dc=example,dc=com",
			"secret-benchmark"))
		peers = append(peers, connect(t, theirs, "cn=chief,dc=example,dc=com", "chief"))
	}
	var a, b []float64
	for range rounds {
		a, b = append(a, measure(t, ours)), append(b, measure(t, peers))
	}
	slices.Sort(a)
	slices.Sort(b)
	t.Logf("searches/s: doublet %.0f, slapd %.0f; ratio %.2f", a[rounds/2], b[rounds/2], a[rounds/2]/b[rounds/2])
}
