package jmapd

import (
	"errors"
	"net/http"

	logos "doublet/client/bimi"
	"doublet/mail/verify"
	"doublet/wire/bimi"
	"doublet/wire/jmap"
)

// PathLogo is the path of the logo of a message's sender: that of the author's domain, if the message is verified.
const PathLogo = "/jmap/logo/{accountId}/{emailId}"

// logo returns the handler that serves the logo of a message's sender (BIMI) as a picture in which nothing runs. Only a
// message of the account names a domain, so that nobody can have the server look up domains at will.
//
// Implements: draft-brand-indicators-for-message-identification §7 logos of verified mail
func logo(s *Server) func(http.ResponseWriter, *http.Request, *Caller) {
	return func(w http.ResponseWriter, r *http.Request, c *Caller) { sendLogo(s, w, r, c) }
}

func sendLogo(s *Server, w http.ResponseWriter, r *http.Request, c *Caller) {
	x, a := s.reading(w, r, c)
	if x == nil {
		return
	}
	defer x.mem.give()
	const none = "The message's sender has no logo that can be shown."
	x.account = a
	header, err := x.emailHeader(r.PathValue("emailId"), &jmap.Error{Type: "tooLarge"})
	var refused *jmap.Error
	if errors.As(err, &refused) {
		s.failed(w, r, nil, http.StatusNotFound, none)
		return
	}
	if err != nil {
		s.failed(w, r, err, http.StatusServiceUnavailable, "The message cannot be read now.")
		return
	}
	domain, ok := verify.BrandDomain(header, x.ours)
	if !ok {
		s.failed(w, r, nil, http.StatusNotFound, none)
		return
	}
	svg, err := s.opt.Logos.Picture(r.Context(), domain, verify.Organization(domain))
	switch {
	case errors.Is(err, bimi.ErrNone):
		s.failed(w, r, nil, http.StatusNotFound, none)
	case errors.Is(err, logos.ErrBusy):
		s.failed(w, r, nil, http.StatusServiceUnavailable, err.Error())
	case err != nil:
		s.failed(w, r, err, http.StatusServiceUnavailable, "The logo cannot be read now.")
	default:
		logos.Serve(w, svg)
	}
}

// ours reports whether a host is this server or another one of the domain, so that its Authentication-Results count.
func (c *call) ours(host string) bool {
	known, err := c.s.backend.Directory().Servers.Known(c.ctx, host)
	return host == c.s.opt.Hostname || known && err == nil
}
