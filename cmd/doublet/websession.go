package main

import (
	"context"

	"doublet/cluster"
	"doublet/cmd/doublet/config"
	"doublet/directory"
	"doublet/note"
	"doublet/serve/admind"
	"doublet/serve/websession"
)

// mates returns the servers at which browsers can continue if this one fails; name is this server's name in the
// cluster.
func (h *server) mates(ctx context.Context) (name string, list []websession.Mate, err error) {
	n := h.member.Node()
	if n == nil {
		return "", nil, nil
	}
	status := n.Status()
	hosts := map[note.UNID]string{}
	for after := ""; ; {
		var servers []directory.Server
		if servers, after, err = h.system.Directory.Servers.List(ctx, "", 0, after); err != nil {
			return status.Server, nil, err
		}
		for _, s := range servers {
			hosts[s.ID] = s.Host
		}
		if after == "" {
			break
		}
	}
	for _, m := range status.Members {
		if m.Self || !m.Alive || !m.Serving || m.State != cluster.Active {
			continue
		}
		mate := websession.Mate{Name: m.Name}
		if host := hosts[m.ID]; host != "" {
			mate.URL = "https://" + host + "/"
		}
		list = append(list, mate)
	}
	return status.Server, list, nil
}

// openAdmin opens the administration pages.
func (h *front) openAdmin() error {
	from, err := config.Networks(h.cfg.Web.AdminFrom)
	if err != nil {
		return err
	}
	h.web.Handle(admind.Path, admind.New(h.env, h.running, h.sessions,
		admind.Options{From: from, Fresh: h.cfg.Web.AdminFresh.Duration, Stats: h.system.Stats}))
	return nil
}
