package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"doublet/bus/pki"
	"doublet/cmd/doublet/config"

	"github.com/spf13/cobra"
)

// clusterDir is the folder in the data folder that holds the cluster membership.
const clusterDir = "cluster"

// address is one of the two cluster addresses: the one to listen at, and the one that mates connect to. Both are empty
// if it is off.
type address struct{ listen, advertise string }

type addresses struct{ routes, direct address }

// clusterAddresses derives the two addresses from the settings.
func clusterAddresses(cfg *config.Config) (a addresses, err error) {
	c := &cfg.Cluster
	bad := func(key string, err error) (addresses, error) {
		return addresses{}, &config.Error{Where: "configuration", Key: "cluster." + key, Err: err}
	}
	own := ""
	if c.Interface != "" {
		if own, err = interfaceAddress(c.Interface); err != nil {
			return bad("interface", err)
		}
	}
	if a.direct, err = clusterAddress(c.Direct, own, c.Advertise, cfg.Server.Name); err != nil {
		return bad("direct", err)
	}
	if c.NATS != "" {
		return a, nil
	}
	if a.routes, err = clusterAddress(c.Routes, own, c.Advertise, cfg.Server.Name); err != nil {
		return bad("routes", err)
	}
	return a, nil
}

func clusterAddress(setting, own, advertise, name string) (address, error) {
	if setting == config.Off {
		return address{}, nil
	}
	host, port, err := net.SplitHostPort(setting)
	if err != nil {
		return address{}, err
	}
	if host == "" {
		host = own
	}
	a := address{listen: net.JoinHostPort(host, port)}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = ""
	}
	for _, known := range []string{advertise, host, name} {
		if known != "" {
			a.advertise = net.JoinHostPort(known, port)
			break
		}
	}
	return a, nil
}

// interfaceAddress returns the first address of a network interface that other machines can reach, IPv4 before IPv6.
func interfaceAddress(name string) (string, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	list, err := i.Addrs()
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	found := ""
	for _, a := range list {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || p.Addr().IsLinkLocalUnicast() {
			continue
		}
		if p.Addr().Is4() {
			return p.Addr().String(), nil
		}
		if found == "" {
			found = p.Addr().String()
		}
	}
	if found == "" {
		return "", fmt.Errorf("%s has no address", name)
	}
	return found, nil
}

// joinCommand returns doublet cluster join. It creates the data folder of a server that is in a cluster from its first
// start.
func (a *app) joinCommand() *cobra.Command {
	return a.joining(&cobra.Command{
		Use: "join TOKEN", Short: "make a data folder of a new server in the cluster that a token is of",
		Args: count(1, 1),
		Long: "Make a data folder for a server that joins a cluster: its certificate, doublet.toml, and an empty " +
			"store. TOKEN comes from\n" +
			"doublet cluster token on a server of the cluster. People, databases and everything else come from the " +
			"other members\n" +
			"when doublet serve runs. To join on a machine that has other addresses than the settings say, give " +
			"them here.",
	}, false)
}

// gatewayCommand returns doublet gateway.
func (a *app) gatewayCommand() *cobra.Command {
	return a.joining(&cobra.Command{
		Use: "gateway TOKEN", Short: "make a data folder of a gateway to the cluster that a token is of",
		Args: count(1, 1),
		Long: "Make a data folder for a gateway: a member of a cluster that holds the two directories and no mail. " +
			"Every door of it\n" +
			"takes everybody and hands the session to the server where the mail file is; it takes mail for " +
			"everybody. As many as\n" +
			"you like can stand behind one name in DNS, or behind what hands TCP connections on. TOKEN comes from " +
			"doublet cluster\n" +
			"token; then doublet serve.",
	}, true)
}

// joining adds to a command the parts that doublet cluster join and doublet gateway share.
func (a *app) joining(cmd *cobra.Command, gateway bool) *cobra.Command {
	var name string
	cmd.Flags().StringVar(&name, "name", "", "name of the server (default server.name)")
	overrides := settingFlags(cmd, "cluster.", config.Default())
	doors := doorFlags(cmd, config.Default())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		all := doors()
		for key, value := range overrides() {
			all[key] = value
		}
		cfg, _, err := a.load(config.Default(), all)
		if err != nil {
			return err
		}
		if name == "" {
			name = cfg.Server.Name
		}
		return (&newcomer{a, cfg}).joinCluster(cmd.Context(), name, args[0], gateway)
	}
	return cmd
}

// settingFlags adds a flag for every setting of a section. overrides returns the flags that were set.
func settingFlags(cmd *cobra.Command, section string, base config.Config) (overrides func() map[string]string) {
	set := map[string]*string{}
	for _, e := range config.Describe() {
		if len(e.Key) > len(section) && e.Key[:len(section)] == section {
			otherwise, _ := base.Get(e.Key)
			set[e.Key] = cmd.Flags().String(flagName(e.Key[len(section):]), otherwise, e.Doc)
		}
	}
	return func() map[string]string {
		out := map[string]string{}
		for key, v := range set {
			if cmd.Flags().Changed(flagName(key[len(section):])) {
				out[key] = *v
			}
		}
		return out
	}
}

// joinCluster creates the data folder of a member of a cluster, or of a gateway to it.
func (n *newcomer) joinCluster(ctx context.Context, name, token string, gateway bool) error {
	cfg, dir := n.cfg, n.cfg.Data.Dir
	if _, err := os.Stat(filepath.Join(dir, "LOCK")); err == nil {
		return &exitError{exitFailed,
			fmt.Errorf("%s holds a store already: a server joins with an empty data folder, which the others fill",
				dir)}
	}
	at, err := clusterAddresses(&cfg)
	if err != nil {
		return err
	}
	if at.direct.listen == "" {
		return &exitError{exitUsage, errors.New("cluster.direct is off: a server of a cluster needs it")}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	quiet := cfg
	quiet.Log.Level = "error"
	e := world(&quiet, n.err)
	me := pki.Applicant{Name: name, Host: cfg.Server.Name, Version: version(), Route: at.routes.advertise,
		Direct: at.direct.advertise, Gateway: gateway}
	f, admission, err := pki.Join(ctx, e, filepath.Join(dir, clusterDir), token, me,
		pki.Options{WritePrivate: writePrivate})
	switch {
	case errors.Is(err, pki.ErrExists): // an interrupted attempt
		if f, err = pki.Open(e, filepath.Join(dir, clusterDir), pki.Options{}); err != nil {
			return err
		}
	case errors.Is(err, pki.ErrBadToken):
		return &exitError{exitUsage, err}
	case err != nil:
		return err
	}
	if cfg.Server.Domain == "" {
		cfg.Server.Domain = admission.Domain
	}
	if err := writeSettings(cfg); err != nil {
		return err
	}
	s, err := openAlone(e, &cfg)
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(n.out,
		"joined %s as %s (%s)\n  settings: %s\nnext: doublet serve --data %s runs the server, which the others fill\n",
		f.Cluster(), f.Identity().Name, f.Identity().ID, filepath.Join(dir, config.FileName), dir)
	return err
}
