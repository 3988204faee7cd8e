package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"doublet/bus"
	"doublet/bus/pki"
	"doublet/cmd/doublet/config"
	"doublet/directory"
	"doublet/mailbox"
	"doublet/replica"
	"doublet/replica/domain"
	"doublet/replica/https"
	"doublet/store"

	"github.com/spf13/cobra"
)

// reached returns the addresses at which other servers of the domain, and clients that they redirect, reach this
// server's doors.
func (h *server) reached() []string {
	c := &h.cfg
	var out []string
	for _, d := range []struct{ name, setting string }{
		{"smtp", c.Doors.SMTP}, {"submission", c.Doors.Submission}, {"imap", c.Doors.IMAP}, {"imaps", c.Doors.IMAPS},
		{"pop3", c.Doors.POP3}, {"pop3s", c.Doors.POP3S}, {"sieve", c.Doors.Sieve},
		{"ldap", c.Doors.LDAP},
		{"ldaps", c.Doors.LDAPS}, {"https", c.Doors.HTTPS},
	} {
		open := h.doors.address(d.name)
		if open == "" {
			continue
		}
		a, err := clusterAddress(d.setting, "", c.Cluster.Advertise, c.Server.Name)
		if err != nil {
			continue
		}
		host, port, err := net.SplitHostPort(a.advertise)
		if _, opened, bad := net.SplitHostPort(open); bad == nil && port == "0" {
			port = opened
		}
		if err != nil {
			continue
		}
		at := net.JoinHostPort(host, port)
		if d.name != "https" {
			out = append(out, d.name+" "+at)
			continue
		}
		if port == "443" {
			at = host
		}
		out = append(out, "web https://"+at)
	}
	return out
}

// mate returns the name of the server of the domain at the other end of a connection, "" if it is no such server.
func (h *server) mate(ctx context.Context, s *tls.ConnectionState) (string, error) {
	server, err := h.serverOf(ctx, s)
	return server.Name, err
}

// serverOf returns the server of the domain at the other end of a connection, the zero Server if it is no such server.
func (h *server) serverOf(ctx context.Context, s *tls.ConnectionState) (directory.Server, error) {
	key, ok := pki.PeerKey(s)
	if !ok {
		return directory.Server{}, nil
	}
	server, known, err := h.system.Directory.Servers.ByKey(ctx, key)
	if !known {
		return directory.Server{}, err
	}
	return server, err
}

// domainJoinCommand returns doublet domain join. It creates the data folder of a server that shares another server's
// directory.
func (a *app) domainJoinCommand() *cobra.Command {
	var name, address string
	cmd := &cobra.Command{
		Use:   "join TOKEN",
		Short: "make a data folder of a new server that shares the directory of the server that gave out TOKEN",
		Args:  count(1, 1),
		Long: "Make a data folder for a server of the same domain as another one: people and groups are the same on " +
			"both, each person's\n" +
			"mail file is on one of them, and mail goes from one to the other. TOKEN comes from doublet domain " +
			"token on a server of the\n" +
			"domain, which has to run. The directory comes at once, and is kept equal by a connection (doublet " +
			"connection list). The\n" +
			"new server may then found a cluster of its own (doublet cluster init).",
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the server, which becomes server.name (default server.name)")
	cmd.Flags().StringVar(&address, "address", "",
		"host:port of the other server's door https, where it is not reached at the one of the token")
	for _, old := range []string{"user", "fingerprint"} { // flags of earlier versions, which joined with a password
		cmd.Flags().String(old, "", "")
		_ = cmd.Flags().MarkHidden(old)
	}
	doors := doorFlags(cmd, config.Default())
	overrides := settingFlags(cmd, "cluster.", config.Default())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		token, err := pki.ParseToken(args[0])
		if err != nil || !token.Domain || cmd.Flags().Changed("user") {
			return &exitError{exitUsage, errNoDomainToken}
		}
		if address != "" {
			token.Address = address
		}
		all := doors()
		for key, value := range overrides() {
			all[key] = value
		}
		if name != "" {
			all["server.name"] = name
		}
		cfg, _, err := a.load(config.Default(), all)
		if err != nil {
			return err
		}
		return (&newcomer{a, cfg}).joinDomain(cmd.Context(), token)
	}
	return cmd
}

// errNoDomainToken explains how a server joins.
var errNoDomainToken = errors.New("join needs a token: run doublet domain token on a member, then doublet domain " +
	"join TOKEN here")

// joinDomain joins a server to a domain. It can be repeated after an interruption.
func (n *newcomer) joinDomain(ctx context.Context, token pki.Token) error {
	cfg, dir := n.cfg, n.cfg.Data.Dir
	if _, err := os.Stat(filepath.Join(dir, config.FileName)); err == nil {
		return &exitError{exitFailed,
			fmt.Errorf("%s is the data folder of a server already: a server joins with an empty one", dir)}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	quiet := cfg
	quiet.Log.Level = "error"
	e := world(&quiet, n.err)
	own, err := pki.MakeOwn(e, filepath.Join(dir, clusterDir), pki.Options{WritePrivate: writePrivate})
	if err != nil {
		return err
	}
	o := https.ClientOptions{URL: "https://" + token.Address, TLS: own.Client(bus.Key(token.Fingerprint), e.Clock.Now)}
	client, err := https.NewClient(e, o)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	defer client.Close()
	answer, err := domain.Apply(ctx, client, domain.Applicant{Name: cfg.Server.Name, Host: cfg.Server.Name,
		Version: version(), Secret: token.Secret[:]})
	if err != nil {
		return err
	}
	if err := n.fetchDirectory(ctx, o); err != nil {
		return err
	}
	if cfg.Server.Domain == "" {
		cfg.Server.Domain = answer.Domain
	}
	if err := writeSettings(cfg); err != nil { // last, because with it the folder counts as a server's
		return err
	}
	_, err = fmt.Fprintf(n.out, "%s shares the directory of %s\n  settings: %s\nnext: doublet serve --data %s\n",
		cfg.Server.Name, answer.Server, filepath.Join(dir, config.FileName), dir)
	return err
}

// fetchDirectory creates the local replica of the directory.
func (n *newcomer) fetchDirectory(ctx context.Context, o https.ClientOptions) (err error) {
	quiet := n.cfg
	quiet.Log.Level = "error"
	e := world(&quiet, n.err)
	client, err := https.NewClient(e, o)
	if err != nil {
		return err
	}
	defer client.Close()
	s, err := openAlone(e, &n.cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if _, err := s.Info(directory.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	svc := replica.New(s, mailbox.New(s, e, mailbox.Options{}), e, replica.Options{})
	job := &https.Job{Client: client, Service: svc, Store: s, Databases: []string{directory.ID.String()},
		Direction: https.Pull, Domain: true}
	_, out, err := job.Run(ctx)
	for _, x := range out {
		err = errors.Join(err, x.Err)
	}
	return err
}
