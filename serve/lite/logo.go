package lite

import (
	"errors"
	"net/http"

	"doublet/client/bimi"
	"doublet/mail/verify"
	wirebimi "doublet/wire/bimi"
)

// logoDomain returns the domain whose logo (BIMI) may be shown beside a message, or "".
func (v *visit) logoDomain(l *letter) (string, error) {
	if v.s.opt.Logos == nil {
		return "", nil
	}
	head, err := l.head()
	if err != nil {
		return "", err
	}
	domain, _ := verify.BrandDomain(head, v.ours)
	return domain, nil
}

// ours reports whether a host is this server or another one of the domain, so that its Authentication-Results count.
func (v *visit) ours(host string) bool {
	known, err := v.s.dir.Servers.Known(v.ctx, host)
	return host == v.s.opt.Hostname || known && err == nil
}

// logo serves the logo of a message's sender.
func (v *visit) logo() error {
	l, err := v.named(false)
	if err != nil {
		return err
	}
	domain, err := v.logoDomain(l)
	if err != nil {
		return err
	}
	err = wirebimi.ErrNone
	var svg []byte
	if domain != "" {
		svg, err = v.s.opt.Logos.Picture(v.ctx, domain, verify.Organization(domain))
	}
	switch {
	case err == nil:
		bimi.Serve(v.w, svg)
	case errors.Is(err, wirebimi.ErrNone):
		http.Error(v.w, "the sender has no logo that can be shown", http.StatusNotFound)
	default:
		http.Error(v.w, "the logo cannot be read now", http.StatusServiceUnavailable)
	}
	return nil
}
