package signin

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/directory"
)

// The credentials that programs have. One of them, or several separated by spaces of which each must be good, stands in
// Account.Credential: a connection that was signed in with them ends when they do.
const (
	credentialApp      = "app:"      // with the id of an app password
	credentialPassword = "password:" // with the PasswordID
	credentialOAuth    = "oauth:"    // with the end of the token, in Unix seconds
)

// credentialOf is that of a token with an end.
func credentialOf(ends time.Time) string { return credentialOAuth + strconv.FormatInt(ends.Unix(), 10) }

func proofCredential(p *directory.Proof) string {
	if p.App != "" {
		return credentialApp + p.App
	}
	return credentialPassword + p.Person.PasswordID
}

// scramCredential is that of a person who has proved to have one of their passwords, and not which one.
func scramCredential(p *directory.Person) string {
	var all []string
	if p.HasPassword && !p.HasTOTP() {
		all = append(all, credentialPassword+p.PasswordID)
	}
	for _, a := range p.AppPasswords {
		all = append(all, credentialApp+a.ID)
	}
	return strings.Join(all, " ")
}

// Ends is when a credential ends by itself, also one that a mate has told of; the zero time where it does not.
func Ends(credential string) time.Time {
	_, text, ok := strings.Cut(credential, credentialOAuth)
	if !ok {
		return time.Time{}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Unix(0, 0)
	}
	return time.Unix(n, 0)
}

// ended says that a credential has ended by itself.
func (s *Service) ended(credential string) bool {
	ends := Ends(credential)
	return !ends.IsZero() && !s.env.Clock.Now().Before(ends)
}

// Silence bounds the silence of a client that signed in: as long as that of all, and no longer than its credential is good.
func (a *Account) Silence(most time.Duration, now time.Time) time.Duration {
	if ends := Ends(a.Credential); !ends.IsZero() {
		return min(most, max(ends.Sub(now), time.Millisecond))
	}
	return most
}

// holds says that each of a person's credentials is good.
func (s *Service) holds(p *directory.Person, credentials string) bool {
	for _, c := range strings.Fields(credentials) {
		app, isApp := strings.CutPrefix(c, credentialApp)
		pw, isPassword := strings.CutPrefix(c, credentialPassword)
		switch {
		case isApp && slices.ContainsFunc(p.AppPasswords, func(x directory.AppPassword) bool { return x.ID == app }),
			isPassword && p.HasPassword && !p.HasTOTP() && p.PasswordID == pw,
			strings.HasPrefix(c, credentialOAuth) && s.opt.OAuth != nil && !s.ended(c):
		default:
			return false
		}
	}
	return true
}
