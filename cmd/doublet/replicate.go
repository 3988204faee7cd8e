package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"doublet/admin"
	"doublet/bus/pki"
	"doublet/cmd/doublet/config"
	"doublet/note"
	"doublet/replica/https"
	"doublet/serve/signin"
	"doublet/wire/size"

	"github.com/spf13/cobra"
)

// openReplication serves replication over HTTPS at the web doors.
func (h *front) openReplication() {
	s := h.system
	if !h.cfg.Replica.Serve {
		return
	}
	door := https.New(s.Replica, s.Store, h.env, https.Options{
		Identify: h.identify,
		Refuse:   refuseReplica,
		Admit:    s.Domain.Admit,
		Busy:     h.desk.Answer,
		Audit:    s.AuditReplica,
		Server:   s.Name, Version: s.Version, Stopping: h.ctx, Stats: s.Stats,
		Requests: h.cfg.Replica.Requests, PerPerson: h.cfg.Replica.PerPerson,
		Memory: min(128<<20, int64(h.cfg.Limits.MessageMemory)),
	})
	h.web.Handle(https.Path, door)
}

// identify returns the identity of the client or server that replicates.
func (h *front) identify(r *http.Request) (https.Identity, error) {
	if _, claims := pki.PeerKey(r.TLS); claims {
		server, err := h.serverOf(r.Context(), r.TLS)
		if err == nil && server.ID.IsZero() {
			err = signin.ErrCredentials
		}
		if err != nil {
			return https.Identity{}, err
		}
		return https.Identity{Who: note.System, Name: server.Name, Server: server.ID}, nil
	}
	a := signin.Attempt{Door: "Replica", TLS: r.TLS}
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		if ip, err := netip.ParseAddr(host); err == nil {
			a.Remote = ip.Unmap()
		}
	}
	var p signin.Proved
	err := signin.ErrCredentials
	if user, secret, basic := r.BasicAuth(); basic {
		p, err = h.people.Program(r.Context(), a, user, secret)
	} else if token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); bearer {
		p, err = h.people.Bearer(r.Context(), a, token)
	}
	if err != nil {
		return https.Identity{}, err
	}
	id := https.Identity{Who: p.Who, Name: p.Name, Address: p.Address, Mail: p.Database}
	person, err := h.system.Directory.Names.Person(r.Context(), p.Who.Person)
	id.Short, id.Aliases = person.ShortName, person.MailAddress
	return id, err
}

func refuseReplica(w http.ResponseWriter, _ *http.Request, err error) {
	code := http.StatusUnauthorized
	switch {
	case errors.Is(err, signin.ErrBanned), errors.Is(err, signin.ErrBusy):
		code = http.StatusTooManyRequests
		w.Header().Set("Retry-After", "10")
	case errors.Is(err, signin.ErrDisabled):
		code = http.StatusForbidden
	case !errors.Is(err, signin.ErrCredentials):
		code = http.StatusServiceUnavailable
	}
	if code == http.StatusUnauthorized {
		w.Header().Add("WWW-Authenticate", `Basic realm="Doublet", charset="UTF-8"`)
		w.Header().Add("WWW-Authenticate", `Bearer realm="Doublet"`)
	}
	http.Error(w, http.StatusText(code), code)
}

// replicateFlags are the flags of replicate, named like the arguments of replica copy.
type replicateFlags struct {
	admin.ReplicaCopy
	maxSize string
}

func (a *app) replicateCommand() *cobra.Command {
	var f replicateFlags
	cmd := &cobra.Command{
		Use: "replicate SOURCE-URL", Short: "keep a local copy of a mail file, or of other databases, of a server",
		Args: count(1, 1),
		Long: "Replicate databases of another server with the data folder of --data, which is made where there is " +
			"none: a copy that works\n" +
			"offline. Changes go both ways, as far as the access lists there grant. Without --database it is the " +
			"mail file of who signs\n" +
			"in, who can then sign in here too. The password is asked for; an app password will do. A server that " +
			"runs on the data\n" +
			"folder does the work itself. connection add does the same on a schedule.",
	}
	cmd.Flags().StringVar(&f.User, "user", "", "who signs in at the source")
	cmd.Flags().StringArrayVar(&f.Database, "database", nil, "id or title of a database; may be repeated")
	cmd.Flags().StringVar(&f.Direction, "direction", "both", "pull, push or both")
	cmd.Flags().StringArrayVar(&f.Folder, "folder", nil,
		"bring only what is in this folder, or below it; may be repeated")
	cmd.Flags().StringVar(&f.maxSize, "max-size", "", "bring no message that is larger (10MB)")
	cmd.Flags().IntVar(&f.Days, "days", 0, "bring nothing that is older")
	cmd.Flags().StringVar(&f.Fingerprint, "fingerprint", "",
		"SHA-256 of the source's certificate, where no authority speaks for it")
	cmd.Flags().BoolVar(&f.Compare, "compare", false,
		"compare everything from the beginning, whatever both sides remember")
	cmd.Flags().BoolVar(&f.Continuous, "continuous", false, "go on, and replicate whatever changes on either side")
	cmd.Flags().BoolVar(&a.json, "json", false, "print the result as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		f.URL = args[0]
		if f.User == "" {
			return missing(cmd, "user", "who signs in at the source")
		}
		if f.maxSize != "" {
			n, err := size.Parse(f.maxSize)
			if err != nil {
				return &exitError{exitUsage, err}
			}
			f.MaxSize = admin.Size(n)
		}
		if f.Password, err = a.askSecret("password of " + f.User); err != nil {
			return err
		}
		f.Adopt = len(f.Database) == 0
		if err := a.makeCopyFolder(); err != nil {
			return err
		}
		raw, err := json.Marshal(f.ReplicaCopy)
		if err != nil {
			return err
		}
		verb, _ := admin.Find("replica copy")
		err = a.call(cmd.Context(), verb, raw)
		if f.Continuous && cmd.Context().Err() != nil && errors.Is(err, context.Canceled) {
			return nil // it was asked to end
		}
		return err
	}
	return cmd
}

// makeCopyFolder creates a data folder for copies if there is none. Its doors are open to this machine only; it neither
// accepts mail from others nor sends any.
func (a *app) makeCopyFolder() error {
	base := copyConfig()
	cfg, _, err := a.load(base, nil)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(cfg.Data.Dir, "LOCK")); err == nil {
		return nil
	}
	if err := os.MkdirAll(cfg.Data.Dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(cfg.Data.Dir, config.FileName)
	if _, err := os.Stat(path); notExist(err) {
		portable := cfg
		portable.Data.Dir = ""
		if err := os.WriteFile(path, []byte(portable.Chosen()), 0o600); err != nil {
			return err
		}
	}
	s, err := openAlone(world(&cfg, a.err), &cfg)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.err, "made %s; doublet serve --data %s lets mail programs on this machine read the copy\n",
		cfg.Data.Dir, cfg.Data.Dir)
	return s.Close()
}

// copyConfig returns the settings of a data folder that holds copies.
func copyConfig() config.Config {
	c := config.Demo()
	c.Server.Domain = ""
	c.Doors.SMTP, c.Doors.LMTP, c.Doors.Submission, c.Doors.POP3, c.Doors.IMAPS, c.Doors.LDAP,
		c.Doors.HTTPS = config.Off, config.Off, config.Off, config.Off, config.Off, config.Off, config.Off
	c.Router.Send = false
	return c
}
