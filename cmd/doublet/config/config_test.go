package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), FileName)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPresets(t *testing.T) {
	t.Parallel()
	serve, demo := Default(), Demo()
	for _, c := range []struct{ what, got, want string }{
		{"serve smtp", serve.Doors.SMTP, ":25"},
		{"serve lmtp", serve.Doors.LMTP, "off"},
		{"demo http", demo.Doors.HTTP, "127.0.0.1:8080"},
		{"demo smtp", demo.Doors.SMTP, "127.0.0.1:2525"},
		{"demo submission", demo.Doors.Submission, "127.0.0.1:2587"},
		{"demo lmtp", demo.Doors.LMTP, "127.0.0.1:2424"},
		{"demo imap", demo.Doors.IMAP, "127.0.0.1:2143"},
		{"demo imaps", demo.Doors.IMAPS, "127.0.0.1:2993"},
		{"demo domain", demo.Server.Domain, "example.com"},
	} {
		if c.got != c.want {
			t.Errorf("%s is %q, want %q", c.what, c.got, c.want)
		}
	}
	if serve.Limits.MessageSize != 50<<20 || serve.Limits.Recipients != 1000 || serve.Limits.MIMEDepth != 100 ||
		serve.Store.WALSyncInterval.Duration != 500*time.Microsecond || serve.Store.SpaceFloor != 1<<30 ||
		serve.Store.SpaceFloorPercent != 5 {
		t.Errorf("defaults: %+v", serve)
	}
	for _, c := range []Config{serve, demo} {
		if warnings, err := c.Check(); err != nil || len(warnings) > 0 {
			t.Errorf("a preset is not right: %v, %v", warnings, err)
		}
	}
}

func TestEverySettingIsDescribed(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, e := range Describe() {
		if e.Doc == "" || e.Type == "" || seen[e.Key] || !strings.HasSuffix(e.Doc, ".") {
			t.Errorf("%+v", e)
		}
		seen[e.Key] = true
		if _, ok := Default().Get(e.Key); !ok {
			t.Errorf("Get(%s) finds nothing", e.Key)
		}
		if !strings.Contains(Markdown(), e.Env) {
			t.Errorf("%s is not in the document", e.Env)
		}
	}
	for _, s := range Sections() {
		if s.Doc == "" {
			t.Errorf("[%s] has no documentation", s.Name)
		}
	}
	if want := len(Describe()) + len(Sections()); len(docs) != want {
		t.Errorf("settings.txt has %d descriptions, there are %d sections and settings", len(docs), want)
	}
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	path := write(t, `
[limits]
message_size = "10MB"
recipients = 200
header_bytes = 65536
[store]
wal_sync_interval = "2ms"
[doors]
imap = "127.0.0.1:1"
`)
	c, warnings, err := Load(Demo(), path,
		[]string{"PATH=x", "DOUBLET_LIMITS_RECIPIENTS=300", "DOUBLET_DOORS_IMAP=127.0.0.1:2",
			"DOUBLET_LIMIT_RECIPIENTS=1"},
		map[string]string{"doors.imap": "127.0.0.1:3"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Limits.MessageSize != 10<<20 || c.Limits.Recipients != 300 || c.Doors.IMAP != "127.0.0.1:3" ||
		c.Limits.HeaderBytes != 65536 || c.Store.WALSyncInterval.String() != "2ms" || c.Doors.HTTP != "127.0.0.1:8080" {
		t.Errorf("%+v", c)
	}
	if len(warnings) != 1 || !strings.Contains(string(warnings[0]), "did you mean DOUBLET_LIMITS_RECIPIENTS?") {
		t.Errorf("warnings %q", warnings)
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, file string
		env        string
		flag       [2]string
		want       []string
	}{
		{name: "unknown key", file: "[limits]\n\nmesage_size = \"1MB\"\n",
			want: []string{FileName + ":3", "limits.mesage_size", "did you mean limits.message_size?"}},
		{name: "unknown section", file: "[limit]\nrecipients = 200\n",
			want: []string{FileName + ":", "did you mean limits"}},
		{name: "wrong section", file: "[server]\nimap = \"off\"\n", want: []string{":2", "did you mean doors.imap?"}},
		{name: "two mistakes", file: "[log]\nlevl = \"info\"\nformt = \"text\"\n",
			want: []string{":2", "log.level?", ":3", "log.format?"}},
		{name: "nothing near", file: "[log]\nxyzzyxyzzy = 1\n", want: []string{"no such setting"}},
		{name: "syntax", file: "[log\n", want: []string{FileName + ":1"}},
		{name: "wrong type", file: "[limits]\nrecipients = \"many\"\n", want: []string{FileName + ":2", "recipients"}},
		{name: "bad size", file: "[limits]\nmessage_size = \"fifty\"\n",
			want: []string{FileName + ":2", `"fifty" is not a size`}},
		{name: "bad duration", file: "[store]\nwal_sync_interval = 5\n",
			want: []string{FileName + ":2", "not a duration"}},
		{name: "too small", file: "[server]\nname=\"x\"\n[limits]\nrecipients = 5\n",
			want: []string{FileName + ":4", "5 is not within 100 to 100000"}},
		{name: "one of", file: "[log]\nlevel = \"loud\"\n", want: []string{FileName + ":2",
			"debug, info, warn or error"}},
		{name: "door", file: "[doors]\nsmtp = \"25\"\n", want: []string{FileName + ":2", "neither host:port nor off"}},
		{name: "port", file: "[doors]\nsmtp = \":70000\"\n", want: []string{"neither host:port nor off"}},
		{name: "same address", file: "[doors]\nsmtp = \":143\"\n", want: []string{"already the address of doors."}},
		{name: "bucket", file: "[data]\nbackup_dir = \"s3://b?colour=red\"\n",
			want: []string{FileName + ":2", "data.backup_dir", "unknown parameter colour"}},
		{name: "archive in a bucket", file: "[archive]\ntarget = \"s3://\"\n",
			want: []string{"archive.target", "no bucket"}},
		{name: "recipient", file: "[data]\nbackup_recipient = \"age1x\"\n",
			want: []string{FileName + ":2", "data.backup_recipient"}},
		{name: "what stays", file: "[data]\nbackup_keep = \"a week\"\n",
			want: []string{"data.backup_keep", "7d 4w 12m"}},
		{name: "full check of encrypted backups", file: "[data]\nbackup_check = \"full\"\nbackup_recipient = " +
			"\"age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p\"\n",
			want: []string{FileName + ":2", "the private key"}},
		{name: "certificate alone", file: "[tls]\ncertificate = \"x.pem\"\n", want: []string{"or neither"}},
		{name: "environment", env: "DOUBLET_LIMITS_RECIPIENTS=x",
			want: []string{"DOUBLET_LIMITS_RECIPIENTS", "not a whole number"}},
		{name: "switch", file: "[directory]\nscram = \"yes\"\n", want: []string{FileName + ":2"}},
		{name: "switch in the environment", env: "DOUBLET_DIRECTORY_SCRAM=maybe",
			want: []string{"neither true nor false"}},
		{name: "flag", flag: [2]string{"limits.mime_depth", "0"}, want: []string{"flag", "1 to 100"}},
		{name: "unknown flag", flag: [2]string{"doors.imp", "off"}, want: []string{"did you mean doors.imap?"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			overrides := map[string]string{}
			if c.flag[0] != "" {
				overrides[c.flag[0]] = c.flag[1]
			}
			got, _, err := Load(Default(), write(t, c.file), []string{c.env}, overrides)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("no %q in: %v", want, err)
				}
			}
			if got != Default() {
				t.Error("a bad configuration changed something")
			}
		})
	}
}

func TestMissingFile(t *testing.T) {
	t.Parallel()
	if _, _, err := Load(Default(), filepath.Join(t.TempDir(), "none"), nil, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file gives %v", err)
	}
	if _, _, err := Load(Default(), "", nil, nil); err != nil {
		t.Errorf("no file gives %v", err)
	}
	big := write(t, strings.Repeat("# x\n", maxFile/4+1))
	if _, _, err := Load(Default(), big, nil, nil); err == nil {
		t.Error("a file above the bound is read")
	}
}

func TestWrittenFileReadsBack(t *testing.T) {
	t.Parallel()
	c := Demo()
	c.Directory.SCRAM = false // Demo sets true
	c.Data.Dir = "a \"quoted\"\\ \x01 folder"
	back, warnings, err := Load(Default(), write(t, c.TOML()), nil, nil)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	if back != c {
		t.Errorf("%+v\nwant\n%+v", back, c)
	}
	c.Data.Dir = ""
	base := Default()
	base.Data.Dir = "where the file is"
	if back, _, err = Load(base, write(t, c.TOML()), nil, nil); err != nil || back.Data.Dir != base.Data.Dir {
		t.Errorf("a file without a data folder gives %q, %v", back.Data.Dir, err)
	}
}

func TestAllDoorsOff(t *testing.T) {
	t.Parallel()
	c := Default()
	for _, f := range fields {
		if strings.HasPrefix(f.key, "doors.") {
			if err := f.parse(&c, Off); err != nil {
				t.Fatal(err)
			}
		}
	}
	if w, err := c.Check(); err != nil || len(w) != 1 {
		t.Errorf("%v, %v", w, err)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(Default().TOML())
	f.Add("[limits]\nmessage_size = \"1MB\"\n[[limits]]\n")
	f.Add("limits.recipients = 5\nx = {a=1, b=[1,2]}\n")
	f.Fuzz(func(t *testing.T, text string) {
		c := Default()
		if err := c.decode("f", []byte(text), map[string]string{}); err != nil {
			if err.Error() == "" {
				t.Error("an error without words")
			}
			return
		}
		if _, err := c.Check(); err != nil {
			return
		}
		back := Default()
		if err := back.decode("f", []byte(c.TOML()), map[string]string{}); err != nil || back != c {
			t.Errorf("%v: what was read cannot be written and read again", err)
		}
	})
}

func TestChosen(t *testing.T) {
	t.Parallel()
	c := Default()
	c.Data.Dir, c.Server.Domain, c.Limits.MessageSize = "", "example.org", 10<<20
	text := c.Chosen()
	var settings []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			settings = append(settings, line)
		}
	}
	want := `[server] domain = "example.org" [limits] message_size = "10MB"`
	if got := strings.Join(settings, " "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	base := Default()
	base.Data.Dir = "there"
	if back, _, err := Load(base, write(t, text), nil, nil); err != nil || back.Limits.MessageSize != 10<<20 ||
		back.Server.Domain != "example.org" {
		t.Errorf("%v %+v", err, back)
	}
}

func TestEdit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, key, value, want string }{
		{"", "log.level", "debug", "\n[log]\nlevel = \"debug\"\n"},
		{"# mine\n[log]\nlevel = \"info\"\nformat = \"json\"", "log.level", "debug",
			"# mine\n[log]\nlevel = \"debug\"\nformat = \"json\""},
		{"[log] # mine\n\n[web]\n", "log.level", "debug", "[log] # mine\nlevel = \"debug\"\n\n[web]\n"},
		{"[web]\nhsts = \"1h\"", "limits.recipients", "200", "[web]\nhsts = \"1h\"\n\n[limits]\nrecipients = 200\n"},
		{"[log]", "log.level", "warn", "[log]\nlevel = \"warn\"\n"},
		{"[web]\n# why\nhsts = \"1h\"\n", "web.hsts", "", "[web]\n# why\n"},
		{"[log]\n  level=\"info\"\t# until Friday\r\n", "log.level", "debug",
			"[log]\n  level=\"debug\"\t# until Friday\r\n"},
		{"[limits]\nrecipients = 200# few", "limits.recipients", "300", "[limits]\nrecipients = 300# few"},
		{"[filter]\nrspamd_password = \"a\\\"#b\" # \"old\"\n", "filter.rspamd_password", "#new",
			"[filter]\nrspamd_password = \"#new\" # \"old\"\n"},
		{"[filter]\nrspamd_password = 'a\\' # old\n", "filter.rspamd_password", "b",
			"[filter]\nrspamd_password = \"b\" # old\n"},
	} {
		edited, err := Set("f", []byte(c.file), c.key, c.value)
		if c.value == "" {
			edited, err = Unset("f", []byte(c.file), c.key)
		}
		if err != nil || string(edited) != c.want {
			t.Errorf("%q %s = %s: %v\n%q\nwant\n%q", c.file, c.key, c.value, err, edited, c.want)
		}
	}
	for _, c := range [][3]string{
		{"", "log.levl", "debug"}, {"", "log.level", "loud"}, {"", "limits.recipients", "many"},
		{"", "limits.recipients", "1"},
		{"broken", "log.level", "debug"}, {"log.level = \"info\"\n", "log.level", "debug"},
		{"log = {level = \"info\"}\n", "log.level", "debug"},
	} {
		if edited, err := Set("f", []byte(c[0]), c[1], c[2]); err == nil {
			t.Errorf("%q: %s = %s gives %q", c[0], c[1], c[2], edited)
		}
	}
}

func FuzzEdit(f *testing.F) {
	f.Add("[log]\nlevel = \"info\"\n", "debug")
	f.Add("log.format = \"json\"\n[log]\n", "warn")
	f.Add("x = \"\"\"\n[log]\nlevel = 1\n\"\"\"", "warn")
	f.Fuzz(func(t *testing.T, file, value string) {
		before, after := Default(), Default()
		edited, err := Set("f", []byte(file), "log.level", value)
		if err != nil {
			return
		}
		_ = before.decode("f", []byte(file), map[string]string{})
		before.Log.Level = value
		if err := after.decode("f", edited, map[string]string{}); err != nil || after != before {
			t.Errorf("%v: %q", err, edited)
		}
	})
}

// TestNotesSettings checks that each setting of notes.ini has settings that exist here, or a reason.
func TestNotesSettings(t *testing.T) {
	t.Parallel()
	list := NotesSettings()
	if len(list) < 45 {
		t.Errorf("only %d settings", len(list))
	}
	before := ""
	for _, s := range list {
		for _, key := range s.Keys {
			if _, ok := fieldOf(key); !ok {
				t.Errorf("%s: no setting %s", s.Name, key)
			}
		}
		if len(s.Keys) == 0 && s.Text == "" {
			t.Errorf("%s: neither a setting nor a reason", s.Name)
		}
		if name := strings.ToLower(s.Name); name <= before {
			t.Errorf("%s is not in alphabetical order", s.Name)
		} else {
			before = name
		}
		if reference, ok := strings.CutPrefix(s.Text, "As "); ok {
			reference, _, _ = strings.Cut(strings.TrimSuffix(reference, "."), ":")
			if !slices.ContainsFunc(list, func(o NotesSetting) bool { return o.Name == reference }) {
				t.Errorf("%s refers to %s, which is not there", s.Name, reference)
			}
		}
	}
}
