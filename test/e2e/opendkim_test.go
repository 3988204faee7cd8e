package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"doublet/test/external"
	"doublet/wire/dkim"

	mathrand "math/rand/v2"
)

// TestOpenDKIMAgrees makes opendkim verify messages that we signed, unchanged and changed.
func TestOpenDKIMAgrees(t *testing.T) {
	t.Parallel()
	opendkim := external.Need(t, "opendkim")[0]
	c := &corpus{Zone: map[string][][2]string{}}
	keys := signingKeys(t, c)
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var published strings.Builder
	for name, records := range c.Zone {
		published.WriteString(name + " " + records[0][1] + "\n")
	}
	config := write("opendkim.conf", []byte("TestPublicKeys "+write("keys", []byte(published.String()))+
		"\nLogWhy yes\n"))

	r := mathrand.New(mathrand.NewPCG(3, 3))
	for i := range 24 {
		k := keys[i%2]
		m := letter(r)
		head, err := dkim.New(m).AppendSignatures(nil, []dkim.Signer{k.signer}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		m = append(head, m...)
		good := true
		switch i / 2 % 3 {
		case 1:
			m, good = append(m, "one more line\r\n"...), false
		case 2:
			m, good = bytes.Replace(m, []byte("ann@"), []byte("eve@"), 1), false
		}
		out, err := exec.Command(opendkim, "-x", config, "-v", "-v", "-t", write("message", m)).CombinedOutput()
		if passed := bytes.Contains(out, []byte("dkim=pass ")); passed != good ||
			!bytes.Contains(out, []byte("dkim=")) {
			t.Errorf("message %d: opendkim says %v: %s, want pass %v", i, err, out, good)
		}
	}
}
