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

// The sender rewriting scheme (SRS). Forwarded mail must not be sent under its original sender address, because the
// sender's SPF record names other servers. It is sent under a local address that contains the original one. A code in
// the address prevents its use for relaying, and a date limits it to three weeks, in which a bounce may come back. An
// address that another forwarder has rewritten is wrapped only once more (SRS1), however many forwarders follow.
const (
	srsDays = 21
	srsHash = 8
)

var srsCoding = base32.StdEncoding.WithPadding(base32.NoPadding)

// srsDay returns a day as two characters, which repeat after 1,024 days.
func srsDay(t time.Time) string {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	n := t.Unix() / 86400
	return string([]byte{digits[n>>5&31], digits[n&31]})
}

// srsCode signs the lower-case text, because some servers change the case of addresses.
func (s *SRS) srsCode(text string) string {
	return srsCoding.EncodeToString(s.dir.Secret.Sign("srs", strings.ToLower(text)))[:srsHash]
}

// rewriteSender returns the SRS address of a sender in a local domain.
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

// leavesAs returns the envelope sender for a message that leaves. Mail from outside leaves unchanged if a group or a
// list's owners are remote, so its sender is rewritten here. Personal forwarding has already rewritten it.
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

// ReverseSRS returns the original sender of an SRS address that this domain's servers made in the last three weeks.
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

// domainOf returns the domain of an address in lower case.
func domainOf(address string) string {
	a, err := directory.ParseAddress(address)
	if err != nil {
		return ""
	}
	return a.Domain
}

// SRS rewrites the senders of forwarded mail, and decodes the rewritten addresses.
type SRS struct {
	dir *directory.Directory
	env *env.Env
}
