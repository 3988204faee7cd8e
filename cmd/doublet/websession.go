package main

import (
	"doublet/cmd/doublet/config"
	"doublet/directory/session"
	"doublet/serve/admind"
	"doublet/serve/signin"
	"doublet/serve/websession"
	"doublet/stat"
)

func sessionOptions(cfg *config.Config, stats *stat.Tree) session.Options {
	return session.Options{Idle: cfg.Web.SessionIdle.Duration, Life: cfg.Web.SessionLife.Duration, PerPerson: cfg.Web.Sessions, Subscriptions: cfg.Push.PerDevice, Stats: stats}
}

// openWebSession makes what all web doors sign people and programs in with, and opens its pages.
func (h *house) openWebSession(in *signin.Web) *websession.Service {
	s := h.system
	x := websession.New(h.env, in, s.Directory, s.Sessions, websession.Options{Server: s.Name, Key: s.Directory.Key("web sessions"), Stats: s.Stats})
	h.web.Handle(websession.PathAccount, x.Handler())
	return x
}

// openAdmin opens the door for administrators at a browser.
func (h *house) openAdmin(x *websession.Service) error {
	from, err := config.Networks(h.cfg.Web.AdminFrom)
	if err != nil {
		return err
	}
	h.web.Handle(admind.Path, admind.New(h.env, h.system, x, admind.Options{From: from, Fresh: h.cfg.Web.AdminFresh.Duration, Stats: h.system.Stats}))
	return nil
}
