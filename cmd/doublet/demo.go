package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"unicode/utf8"

	"doublet/cmd/doublet/config"
	"doublet/cmd/doublet/demo"

	"github.com/spf13/cobra"
)

func (a *app) demoCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "demo", Short: "run a server with three people and sample mail on loopback", Args: cobra.NoArgs,
		Long: "Run a server on loopback with the domain example.com, the people alice, bob and carol (password demo) and two weeks of\ntheir mail. Its data is in ./data; a second start leaves it as it is.",
	}
	overrides := doorFlags(cmd, config.Demo())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, warnings, err := a.load(config.Demo(), overrides())
		if err != nil {
			return err
		}
		if err := os.MkdirAll(cfg.Data.Dir, 0o700); err != nil {
			return err
		}
		e := world(&cfg, a.err)
		warn(e, warnings)
		return a.demo(cmd.Context(), cfg)
	}
	return cmd
}

func (a *app) demo(ctx context.Context, cfg config.Config) error {
	e := world(&cfg, a.err)
	filled := false
	fill := func(ctx context.Context, h *house) (err error) {
		filled, err = demo.Fill(ctx, h.system)
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP) // its terminal went away
	defer stop()
	return live(ctx, e, cfg, nil, fill, func(h *house) error {
		_, err := fmt.Fprint(a.out, box(h, filled))
		return err
	})
}

// box says what to open and which logins to use.
func box(h *house, filled bool) string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	add("Doublet %s is running. Stop it with Ctrl-C.", h.system.Version)
	add("")
	if at := h.door("http"); at != "" {
		add("Open       http://%s/", at)
		add("           /admin/ administers it (as %s), /lite/ needs no script", demo.People[0])
	}
	add("Log in as  %s@%s   password %s", strings.Join(demo.People, ", "), demo.Domain, demo.Password)
	state := "as it was left"
	if filled {
		state = "made now, with sample mail"
	}
	add("Data       %s (%s)", h.cfg.Data.Dir, state)
	add("")
	for _, d := range h.doors {
		if d.Name != "http" {
			add("%-12s %-18s %s", d.Name, d.Address, d.TLS)
		}
	}
	add("")
	if at := h.door("smtp"); at != "" {
		add("swaks --server %s --from bob@%s --to alice@%s", at, demo.Domain, demo.Domain)
	}
	if at := h.door("imap"); at != "" {
		add("curl -u alice:%s 'imap://%s/INBOX?ALL'", demo.Password, at)
		host, port, _ := net.SplitHostPort(at)
		add("mutt -f imap://alice:%s@%s:%s/INBOX", demo.Password, host, port)
	}
	add("doublet show users --data %s", h.cfg.Data.Dir)

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
