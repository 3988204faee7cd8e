package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"doublet/admin"
	"doublet/cmd/doublet/config"
	"doublet/cmd/doublet/demo"

	"github.com/spf13/cobra"
)

func (a *app) demoCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "demo", Short: "run a server with three people and sample mail on loopback", Args: cobra.NoArgs,
		Long: "Run a server on loopback with the domain example.com, the people alice, bob and carol (password " +
			"demo) and two weeks of\ntheir mail. Its data is in ./data; a second start leaves it as it is. Where " +
			"one of its ports is taken, all move up by 10000.",
	}
	overrides := doorFlags(cmd, config.Demo())
	host := cmd.Flags().String("addr", "127.0.0.1", "address on which all doors listen; 0.0.0.0 lets other machines in")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		base, err := demoDoors(*host)
		if err != nil {
			return err
		}
		cfg, warnings, err := a.load(base, overrides())
		if err != nil {
			return err
		}
		if err := os.MkdirAll(cfg.Data.Dir, 0o700); err != nil {
			return err
		}
		e, level := leveled(&cfg, a.err)
		warn(e, warnings)
		load := func() (config.Config, []config.Warning, error) { return a.load(base, overrides()) }
		return a.demo(cmd.Context(), life{env: e, level: level, cfg: cfg, load: load, edit: a.editSetting})
	}
	return cmd
}

// demoDoors returns the settings of the demo with its doors at the address host and on free ports: those of the
// settings, or all of them raised by the same multiple of 10,000.
func demoDoors(host string) (config.Config, error) {
	const step, top = 10_000, 65_535
	if net.ParseIP(host) == nil {
		return config.Config{}, &exitError{exitUsage, fmt.Errorf("--addr %s: not an IP address", host)}
	}
	for shift := 0; ; shift += step {
		cfg, taken, last := config.Demo(), "", 0
		cfg.MapDoors(func(address string) string {
			_, port, _ := net.SplitHostPort(address)
			n, _ := strconv.Atoi(port)
			last = max(last, n+shift)
			at := net.JoinHostPort(host, strconv.Itoa(n+shift))
			if !free(at) {
				taken = at
			}
			return at
		})
		switch {
		case taken == "":
			return cfg, nil
		case last+step > top:
			return cfg, &exitError{exitPort,
				fmt.Errorf("%s and the ports before it are in use: set free ones, for example --imap %s",
					taken, net.JoinHostPort(host, "0"))}
		}
	}
}

// free reports whether a server can listen at an address.
func free(address string) bool {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func (a *app) demo(ctx context.Context, l life) error {
	filled := false
	l.fill = func(ctx context.Context, h *house) (err error) {
		filled, err = demo.Fill(ctx, h.system)
		return err
	}
	ctx, stop := untilHangup(ctx)
	defer stop()
	l.ready = func(h *server) error {
		_, err := fmt.Fprint(a.out, box(h, filled, a.again("show", "users")))
		return err
	}
	return live(ctx, l)
}

// again returns a command line for this program and this data folder, as the user has to type it here.
func (a *app) again(words ...string) string {
	program := "doublet" // from PATH
	if strings.ContainsRune(os.Args[0], os.PathSeparator) {
		program = os.Args[0]
	}
	if a.data != "" && filepath.Clean(a.data) != filepath.Clean(config.Default().Data.Dir) {
		words = append(words, "--data", a.data)
	}
	return program + " " + strings.Join(words, " ")
}

// exposed reports whether other machines can reach a door.
func exposed(doors []admin.Door) bool {
	return slices.ContainsFunc(doors, func(d admin.Door) bool { return !loopbackName(d.Address) })
}

// box returns the text that the demo prints after its start: addresses, sign-ins and example commands, among them verb.
func box(h *server, filled bool, verb string) string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	add("Doublet %s is running. Stop it with Ctrl-C.", h.system.Version)
	add("")
	if at := h.doors.address("http"); at != "" {
		add("Open       http://%s/", at)
		add("           /admin/ administers it (as %s), /lite/ needs no script", demo.People[0])
		add("           /dav/ has calendars and contacts, for CalDAV and CardDAV")
	}
	add("Log in as  %s@%s   password %s", strings.Join(demo.People, ", "), demo.Domain, demo.Password)
	state := "as it was left"
	if filled {
		state = "made now, with sample mail"
	}
	add("Data       %s (%s)", h.cfg.Data.Dir, state)
	if exposed(h.doors.all()) {
		add("")
		add("Other machines reach this server, and its password is public: anybody can")
		add("sign in, as an administrator too. Keep it off the Internet.")
	}
	add("")
	for _, d := range h.doors.all() {
		if d.Name != "http" {
			add("%-12s %-18s %s", d.Name, d.Address, d.TLS)
		}
	}
	add("")
	if at := h.doors.address("smtp"); at != "" {
		add("swaks --server %s --from bob@%s --to alice@%s", at, demo.Domain, demo.Domain)
	}
	if at := h.doors.address("imap"); at != "" {
		add("curl -u alice:%s 'imap://%s/INBOX?ALL'", demo.Password, at)
		host, port, _ := net.SplitHostPort(at)
		add("mutt -f imap://alice:%s@%s:%s/INBOX", demo.Password, host, port)
	}
	add("%s", verb)

	width := 0
	for _, l := range lines {
		width = max(width, utf8.RuneCountInString(l))
	}
	var b strings.Builder
	bar := strings.Repeat("─", width+2)
	b.WriteString("╭" + bar + "╮\n")
	for _, l := range lines {
		b.WriteString("│ " + l + strings.Repeat(" ", width-utf8.RuneCountInString(l)) + " │\n")
	}
	b.WriteString("╰" + bar + "╯\n")
	return b.String()
}
