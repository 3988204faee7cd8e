package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"doublet/test/external"
	"doublet/test/program"
)

// TestUnits checks that systemd finds no mistakes in the units, and that it rates them as well confined.
func TestUnits(t *testing.T) {
	t.Parallel()
	external.Need(t, "systemd-analyze")
	binary, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for unit, as := range map[string]string{"doublet.service": "doublet.service",
		"doublet@.service": "doublet@sales.service"} {
		raw, err := os.ReadFile(filepath.Join("../../packaging/systemd", unit))
		if err != nil {
			t.Fatal(err)
		}
		// The program must exist for the verification, and only the package creates the account.
		text := strings.NewReplacer("/usr/bin/doublet ", binary+" ", "User=doublet\n", "User=root\n", "Group=doublet\n",
			"Group=root\n").Replace(string(raw))
		if err := os.WriteFile(filepath.Join(dir, unit), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		c := exec.Command("systemd-analyze", "verify", "--man=no", "--generators=no", filepath.Join(dir, as))
		c.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir+":")
		if out, err := c.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", unit, err, out)
		}
		out, err := program.Command("systemd-analyze", "security", "--offline=true", "--threshold=25", "--no-pager",
			filepath.Join("../../packaging/systemd", unit))
		if err != nil {
			t.Errorf("%s: more exposed than 2.5 of 10: %v\n%s", unit, err, out)
		}
		for _, want := range []string{"Type=notify\n", "WatchdogSec=", "ConditionPathExists=/var/lib/doublet",
			"NoNewPrivileges=yes\n", "ProtectSystem=strict\n"} {
			if !strings.Contains(string(raw), want) {
				t.Errorf("%s lacks %q", unit, want)
			}
		}
	}
}

// TestDebianPackage builds the package and checks that its files are in the right places and work.
func TestDebianPackage(t *testing.T) {
	t.Parallel()
	external.Need(t, "dpkg-deb")
	binary, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	out := strings.TrimSpace(program.Run(t, "", []string{"DEB_LEVEL=0"}, "../../packaging/deb/build", binary, dir))
	if !regexp.MustCompile(`/doublet_0\.\d+(\.\d+)?(~\d{14}\.[0-9a-f]+)?_\w+\.deb$`).MatchString(out) {
		t.Errorf("it is called %s", out)
	}
	list := program.Run(t, "", nil, "dpkg-deb", "-c", out)
	for _, line := range []string{
		`-rwxr-xr-x root/root .* \./usr/bin/doublet\n`,
		`-rw-r--r-- root/root .* \./usr/lib/systemd/system/doublet\.service\n`,
		`-rw-r--r-- root/root .* \./usr/lib/systemd/system/doublet@\.service\n`,
		`-rw-r--r-- root/root .* \./etc/default/doublet\n`, `\./usr/share/doc/doublet/operate\.md\n`,
		`\./usr/share/doc/doublet/copyright\n`, `\./usr/share/doc/doublet/changelog\.gz\n`,
		`\./usr/share/doc/doublet/CHANGES\.gz\n`, `\./usr/share/man/man1/doublet\.1\.gz\n`,
	} {
		if !regexp.MustCompile(line).MatchString(list) {
			t.Errorf("no %s in\n%s", line, list)
		}
	}
	if strings.Contains(list, "/var/lib") {
		t.Error("the package owns the data folder, and would take it away")
	}
	program.Want(t, program.Run(t, "", nil, "dpkg-deb", "-I", out), "Package: doublet",
		"Depends: adduser, ca-certificates", "conffiles", "postinst", "prerm", "postrm", "md5sums")
	program.Want(t, program.Run(t, "", nil, "dpkg-deb", "--info", out, "conffiles"), "/etc/default/doublet\n")
	root := filepath.Join(dir, "root")
	program.Run(t, "", nil, "dpkg-deb", "-R", out, root)
	program.Want(t, program.Run(t, "", nil, filepath.Join(root, "usr/bin/doublet"), "version"), "doublet 0.")
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		program.Run(t, "", nil, "sh", "-n", filepath.Join(root, "DEBIAN", script))
	}
	post, err := os.ReadFile(filepath.Join(root, "DEBIAN", "postinst"))
	if err != nil ||
		regexp.MustCompile(`(systemctl|deb-systemd-invoke) (--\S+ )*(re)?start|systemctl enable --now doublet\n`).Match(
			regexp.MustCompile(`echo.*`).ReplaceAll(post, nil)) {
		t.Errorf("postinst starts a server that nobody has made: %v", err)
	}
	t.Run("lintian", func(t *testing.T) {
		external.Need(t, "lintian", "strip")
		// lintian takes ten seconds of processor time, which other tests may need.
		if found, err := exec.Command("lintian", "--fail-on", "error,warning", "--allow-root",
			out).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, found)
		}
	})
}
