package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"

	"doublet/admin"
	"doublet/cmd/doublet/config"
	"doublet/env"
)

// benchDoors lists the doors that a benchmark can drive, each with the door of this server for the same protocol. A
// door found on the running server is used only if instead, its alternative without TLS or for submission, is not open;
// a flag can set any door.
var benchDoors = []struct{ flag, door, instead string }{
	{"imap", "imap", ""}, {"imaps", "imaps", "imap"}, {"submission", "submission", ""},
	{"submissions", "submissions", "submission"},
	{"smtp", "smtp", "submission"}, {"lmtp", "lmtp", ""}, {"pop3", "pop3", ""}, {"pop3s", "pop3s", "pop3"},
	{"jmap", "http", ""}, {"jmaps", "https", "jmap"},
}

// socket returns the path of the admin socket of the measured Doublet: the one of --admin, else of the data folder. It
// is "" for --admin -, which means that the server has none.
func (a *app) socket(o *benchOptions) (string, error) {
	switch o.admin {
	case "-":
		return "", nil
	case "":
		cfg, _, err := a.load(config.Default(), nil)
		return filepath.Join(cfg.Data.Dir, admin.SocketName), err
	}
	return o.admin, nil
}

// findDoors sets the doors to those of the running server if no flag sets any. Usually that is the demo in ./data.
func (a *app) findDoors(ctx context.Context, e *env.Env, o *benchOptions) error {
	for _, value := range o.doors {
		if *value != "" {
			return nil
		}
	}
	socket, err := a.socket(o)
	if err != nil {
		return err
	}
	if socket == "" {
		return &exitError{exitUsage,
			errors.New("with --admin - name the server's doors, as with --imap HOST:PORT --submission HOST:PORT")}
	}
	c, err := admin.Dial(e, socket)
	if err != nil {
		return &exitError{exitUsage,
			fmt.Errorf("no Doublet answers at %s: start one (make run), or set --data, or --imap and --submission",
				socket)}
	}
	raw, err := c.Call(ctx, "show server", nil, nil)
	if err != nil {
		return fmt.Errorf("ask %s for its doors: %w", socket, err)
	}
	var server admin.Server
	if err := json.Unmarshal(raw, &server); err != nil {
		return fmt.Errorf("ask %s for its doors: %w", socket, err)
	}
	o.take(server.Doors)
	return nil
}

// take sets the doors to the open doors of a server.
func (o *benchOptions) take(open []admin.Door) {
	for _, d := range benchDoors {
		for _, at := range open {
			if at.Name == d.door && (d.instead == "" || *o.doors[d.instead] == "") {
				*o.doors[d.flag] = reachable(at.Address)
			}
		}
	}
}

// reachable replaces the address of a door that listens on all interfaces by loopback, which a client can connect to.
func reachable(address string) string {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().IsUnspecified() {
		return address
	}
	_, port, _ := net.SplitHostPort(address)
	return net.JoinHostPort("127.0.0.1", port)
}
