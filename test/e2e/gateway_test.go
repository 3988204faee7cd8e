package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"doublet/test/external"
	"doublet/test/program"
)

// TestGateway: a gateway holds the two directories and no mail. People sign in through it by IMAP, POP3, submission and
// JMAP, and it delivers mail from strangers and from people.
func TestGateway(t *testing.T) {
	t.Parallel()
	curl := external.Need(t, "curl")[0]
	list := found(t, []string{"one", "two"}, "bert")
	one, two := list[0], list[1]
	gate := one.admits("gate", "gateway")
	gate.deliver("from-a-stranger")
	gate.sees(curl, "from-a-stranger")
	one.sees(curl, "from-a-stranger")
	gate.asks(curl, 1)

	file := filepath.Join(t.TempDir(), "message")
	text := "From: Bert <bert@cluster.example>\r\nTo: anna@cluster.example\r\nSubject: from-bert\r\n\r\nhello\r\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	submit := func(password string) (string, error) {
		return program.Command(curl, "-s", "-S", "-m", "20", "-u", "bert:"+password, "--mail-from",
			"bert@cluster.example", "--mail-rcpt", "anna@cluster.example", "-T", file,
			"smtp://127.0.0.1:"+gate.Port["submission"])
	}
	if out, err := submit("wrong"); err == nil {
		t.Errorf("a wrong password submits mail: %s", out)
	}
	if out, err := submit("secret"); err != nil {
		t.Fatalf("submission: %v %s\n%s", err, out, gate.Out)
	}
	gate.sees(curl, "from-a-stranger", "from-bert")
	two.sees(curl, "from-a-stranger", "from-bert")
	gate.asks(curl, 2)

	// Replicas move between the other members; none moves to the gateway.
	one.Doublet("cluster", "balance", "--apply")
	for _, d := range one.placed() {
		for _, r := range d.Replicas {
			if r.Server == "gate" {
				t.Errorf("%s has a replica on the gateway", d.Title)
			}
		}
	}
	if out := gate.Doublet("db", "list"); strings.Contains(out, "Anna") || strings.Contains(out, "Bert") {
		t.Errorf("the gateway holds mail files:\n%s", out)
	}
}
