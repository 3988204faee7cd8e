package main

import (
	"doublet/serve/listen"
	"doublet/serve/lite"
	"doublet/serve/websession"
)

// openLite opens the lite mode: the client in pages without scripts.
func (h *house) openLite(x *websession.Service, memory *listen.Budget) {
	s := h.system
	h.web.HandlePeople(lite.Path, lite.New(h.env, x, s.Directory, s.Mailbox, s.Mail, lite.Options{Recipients: h.cfg.Limits.Recipients, Memory: memory, Stats: s.Stats}))
}
