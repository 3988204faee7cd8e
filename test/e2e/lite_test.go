package e2e

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"doublet/test/external"
	"doublet/test/program"
)

// TestTextBrowsers checks that w3m and lynx can read and send mail in the lite mode.
func TestTextBrowsers(t *testing.T) {
	t.Parallel()
	external.Need(t, "w3m", "lynx", "script", "curl")
	s := demo(t)
	t.Run("w3m", func(t *testing.T) { w3m(t, s) })
	t.Run("lynx", func(t *testing.T) { lynx(t, s) })
}

func w3m(t *testing.T, s *server) {
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, ".w3m"), 0o700); err != nil {
		t.Fatal(err)
	}
	lite := "http://127.0.0.1:" + s.Port["http"] + "/lite/"
	get := func(how, at string, form url.Values) string {
		t.Helper()
		args := []string{"-cookie", how}
		if form != nil {
			file := filepath.Join(home, "form")
			if err := os.WriteFile(file, []byte(form.Encode()), 0o600); err != nil {
				t.Fatal(err)
			}
			args = append(args, "-post", file)
		}
		return program.Run(t, "", []string{"HOME=" + home, "LANG=C.UTF-8"}, "w3m", append(args, lite+at)...)
	}
	program.Want(t, get("-dump", "sign-in", url.Values{"user": {"bob"}, "password": {"demo"}, "keep": {"yes"}}),
		"Inbox", "Write", "Carol Müller-Ångström")
	found := regexp.MustCompile(`<a href="/lite/(read\?m=[0-9a-f]{32})">`).FindStringSubmatch(get("-dump_source",
		"?q=subject:cake", nil))
	if found == nil {
		t.Fatal("no message is found")
	}
	program.Want(t, get("-dump", found[1], nil), "From", "Reply to all", "Delete")
	page := get("-dump_source", "compose", nil)
	token := regexp.MustCompile(`name="csrf" value="([^"]*)"`).FindStringSubmatch(page)
	who := regexp.MustCompile(`name="identity" value="([^"]*)"`).FindStringSubmatch(page)
	if token == nil || who == nil {
		t.Fatal(page)
	}
	form := url.Values{"csrf": {token[1]}, "identity": {who[1]}, "to": {"alice@example.com"},
		"subject": {"Sent with w3m"}, "text": {"Grüße aus w3m"}, "do": {"send"}}
	program.Want(t, get("-dump", "compose", form), "The message is sent")
	program.Want(t, s.body(t, "alice", "Sent with w3m"), "From: ", "w3m")
}

// lynx presses keys as a person at a terminal does.
func lynx(t *testing.T, s *server) {
	const down, enter, past = "Down Arrow", "^J", "<tab>"
	var keys strings.Builder
	press := func(list ...string) {
		for _, k := range list {
			keys.WriteString("key " + k + "\n")
		}
	}
	repeat := func(k string, n int) {
		for range n {
			press(k)
		}
	}
	write := func(text string) {
		for _, c := range text {
			press(strings.ReplaceAll(string(c), " ", "<space>"))
		}
	}
	repeat(down, 2) // past the links at the top, to the name
	write("bob")
	press(down)
	write("demo")
	repeat(down, 3) // past the code and the check box
	press(enter)
	repeat(down, 4) // to Write
	press(enter)
	repeat(down, 8) // to To
	write("alice@example.com")
	repeat(down, 3)
	write("Sent with lynx")
	repeat(down, 3)
	write("Written at a terminal")
	press(past)
	repeat(down, 3) // past the files and the time to send at
	press(enter, "Q")
	home := t.TempDir()
	file := filepath.Join(home, "keys")
	if err := os.WriteFile(file, []byte(keys.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	command := "lynx -accept_all_cookies -nopause -cmd_script=" + file + " http://127.0.0.1:" +
		s.Port["http"] + "/lite/"
	out := program.Run(t, "", []string{"HOME=" + home, "TERM=xterm", "LANG=C.UTF-8"}, "timeout", "60", "script", "-qec",
		command, "/dev/null")
	program.Want(t, out, "The message is sent")
	program.Want(t, s.body(t, "alice", "Sent with lynx"), "Written at a terminal")
}
