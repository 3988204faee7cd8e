package mail

import (
	"context"
	"encoding/base32"
	"strings"
	"time"

	"doublet/directory"
	"doublet/env"
	"doublet/wire/smtp"
)

// The sender rewriting scheme. Mail that is forwarded must not be sent under its sender's address:
// the sender's SPF names other servers. It is sent under one of ours that holds the sender's, with a
// code that keeps strangers from using it as a relay, and for three weeks, in which a report may come
// back. An address that another forwarder made so is wrapped once (SRS1), however many follow.
const (
	srsDays = 21
	srsHash = 8
)

var srsCoding = base32.StdEncoding.WithPadding(base32.NoPadding)

// srsDay is a day in two characters, which come again after 1,024 days.
func srsDay(t time.Time) string {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	n := t.Unix() / 86400
	return string([]byte{digits[n>>5&31], digits[n&31]})
}

// srsCode signs in lower case, as some servers change case on the way.
func (s *SRS) srsCode(text string) string {
	return srsCoding.EncodeToString(s.dir.Secret.Sign("srs", strings.ToLower(text)))[:srsHash]
}

// rewriteSender is the sender's address under a domain of ours.
func (s *SRS) rewriteSender(from smtp.Path, domain string) smtp.Path {
	if from.IsNull() || from.Domain == "" || strings.EqualFold(from.Domain, domain) {
		return from
	}
	up := strings.ToUpper(from.Local)
	switch {
	case strings.HasPrefix(up, "SRS0=") || strings.HasPrefix(up, "SRS0-") || strings.HasPrefix(up, "SRS0+"):
		rest := from.Domain + "=" + from.Local[4:]
		return smtp.Path{Local: "SRS1=" + s.srsCode(rest) + "=" + rest, Domain: domain}
	case strings.HasPrefix(up, "SRS1=") || strings.HasPrefix(up, "SRS1-") || strings.HasPrefix(up, "SRS1+"):
		if _, rest, ok := strings.Cut(from.Local[5:], "="); ok {
			return smtp.Path{Local: "SRS1=" + s.srsCode(rest) + "=" + rest, Domain: domain}
		}
	}
	rest := srsDay(s.env.Clock.Now()) + "=" + from.Domain + "=" + from.Local
	return smtp.Path{Local: "SRS0=" + s.srsCode(rest) + "=" + rest, Domain: domain}
}

// leavesAs is the sender under which a message leaves. Strangers' mail leaves where a group or a list's
// owners are elsewhere; where a person forwards it, it has been rewritten already.
func (s *SRS) leavesAs(ctx context.Context, from smtp.Path) (smtp.Path, error) {
	if from.IsNull() {
		return from, nil
	}
	local, err := s.dir.Domains.IsLocal(ctx, from.Domain)
	if err != nil || local {
		return from, err
	}
	domains, err := s.dir.Domains.List(ctx)
	if err != nil || len(domains) == 0 {
		return from, err
	}
	return s.rewriteSender(from, domains[0]), nil
}

// ReverseSRS gives the sender whom an address of ours stands for, if it is one that this domain's
// servers made in the last three weeks.
func (s *SRS) ReverseSRS(address string) (smtp.Path, bool) {
	at := strings.LastIndexByte(address, '@')
	if at < 6 || len(address) > 1000 || !strings.EqualFold(address[:3], "SRS") || address[4] != '=' {
		return smtp.Path{}, false
	}
	if p, err := smtp.ParsePath(address); err == nil {
		return s.reverse(p.Local)
	}
	return smtp.Path{}, false
}

func (s *SRS) reverse(local string) (smtp.Path, bool) {
	code, rest, ok := strings.Cut(local[5:], "=")
	if !ok || !strings.EqualFold(code, s.srsCode(rest)) {
		return smtp.Path{}, false
	}
	var p smtp.Path
	switch local[3] {
	case '0':
		day, sender, ok1 := strings.Cut(rest, "=")
		domain, name, ok2 := strings.Cut(sender, "=")
		if !ok1 || !ok2 || !s.recent(day) {
			return p, false
		}
		p = smtp.Path{Local: name, Domain: domain}
	case '1':
		domain, behind, ok := strings.Cut(rest, "=")
		if !ok {
			return p, false
		}
		p = smtp.Path{Local: "SRS0" + behind, Domain: domain}
	default:
		return p, false
	}
	_, err := smtp.ParsePath(p.String())
	return p, err == nil
}

func (s *SRS) recent(day string) bool {
	for i := range srsDays + 1 {
		if strings.EqualFold(day, srsDay(s.env.Clock.Now().AddDate(0, 0, -i))) {
			return true
		}
	}
	return false
}

// domainOf is the domain of an address, lower case.
func domainOf(address string) string {
	a, err := directory.ParseAddress(address)
	if err != nil {
		return ""
	}
	return a.Domain
}

// SRS rewrites senders of mail that is forwarded, and reads such addresses.
type SRS struct {
	dir *directory.Directory
	env *env.Env
}
