package signin

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/directory"
)

// Prefixes of a program's credentials. Account.Credential holds one credential, or several separated by spaces that
// must all stay valid. A connection that signed in with them is closed when they end.
const (
	credentialApp      = "app:"      // followed by the id of an app password
	credentialPassword = "password:" // followed by the PasswordID
	credentialOAuth    = "oauth:"    // followed by the token's expiry, in Unix seconds
)

// credentialOf returns the credential of a token that expires at ends.
func credentialOf(ends time.Time) string { return credentialOAuth + strconv.FormatInt(ends.Unix(), 10) }

func proofCredential(p *directory.Proof) string {
	if p.App != "" {
		return credentialApp + p.App
	}
	return credentialPassword + p.Person.PasswordID
}

// scramCredential returns the credentials of a person who proved in SCRAM to know one of their passwords. SCRAM does
// not reveal which one, so it returns all of them.
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

// ByPassword reports that the person signed in with the password of the account: with no app password, no token, and no
// mechanism that does not reveal which password was used.
func (a *Account) ByPassword() bool {
	return strings.HasPrefix(a.Credential, credentialPassword) && !strings.Contains(a.Credential, " ")
}

// Ends returns the expiry of a credential, even with a Forwarded prefix, or the zero time if the credential does not
// expire.
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

// ended reports whether a credential has expired.
func (s *Service) ended(credential string) bool {
	ends := Ends(credential)
	return !ends.IsZero() && !s.env.Clock.Now().Before(ends)
}

// Silence returns the idle timeout of a client that signed in: most, but not beyond the expiry of its credential.
func (a *Account) Silence(most time.Duration, now time.Time) time.Duration {
	if ends := Ends(a.Credential); !ends.IsZero() {
		return min(most, max(ends.Sub(now), time.Millisecond))
	}
	return most
}

// holds reports whether all of a person's credentials are valid.
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
