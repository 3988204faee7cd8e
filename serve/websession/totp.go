package websession

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"image/color"
	"net/http"
	"strconv"
	"strings"
	"time"

	"doublet/directory"
	"doublet/directory/session"
	"doublet/directory/totp"
	"doublet/serve/signin"

	"github.com/boombuler/barcode/qr"
)

// setup holds the data to set up a device as a second factor. It is shown only once.
type setup struct {
	// Secret is for typing, and URI for scanning. QR is the QR code of URI as SVG.
	Secret string `json:"secret"`
	URI    string `json:"uri"`
	QR     string `json:"qr"`
	// Ticket must be sent back with the first code. The server stores nothing until then.
	Ticket string `json:"ticket"`
}

// totpStatus describes a user's second factor.
type totpStatus struct {
	On            bool      `json:"on"`
	Since         time.Time `json:"since,omitzero"`
	RecoveryCodes int       `json:"recovery_codes_left"`
	// Wrong reports the wrong codes entered with the correct password, nil if there are none.
	Wrong *session.Wrong `json:"wrong_codes,omitempty"`
}

// recoveryCodes holds new recovery codes. They are shown only once.
type recoveryCodes struct {
	Codes []string `json:"recovery_codes"`
	// CSRF is the token of the new session, if there is one.
	CSRF string `json:"csrf,omitempty"`
}

// totpDoor is the part of a Service that serves the paths of the second factor.
type totpDoor struct{ *Service }

func (x totpDoor) show(_ http.ResponseWriter, r *http.Request, id *Identity, _ *input) (result, error) {
	p := &id.Person
	out := totpStatus{On: p.HasTOTP(), Since: p.TOTP, RecoveryCodes: p.RecoveryCodes()}
	wrong, err := x.sessions.WrongCodes(r.Context(), id.Who.Person)
	if wrong.Count > 0 {
		out.Wrong = &wrong
	}
	return result{value: out}, err
}

// again checks the password and code of a signed-in user again. Access to an unattended browser must not be enough to
// change how the user signs in.
func (x *Service) again(r *http.Request, id *Identity, in *input) error {
	if in.Password == "" {
		return bad("passwordNeeded")
	}
	got, err := x.in.Person(r.Context(), signin.OfRequest(r), id.Person.Name(), in.Password, in.Code)
	if err == nil && got.Who.Person != id.Who.Person {
		err = ErrNobody // the name was given to another person meanwhile
	}
	return err
}

// ticketLife is the time that a user has to set up their device.
const ticketLife = 15 * time.Minute

// begin creates a secret for a user's device.
func (x totpDoor) begin(_ http.ResponseWriter, r *http.Request, id *Identity, in *input) (result, error) {
	if err := x.again(r, id, in); err != nil {
		return result{}, err
	}
	account := id.Address
	if account == "" {
		account = id.Name
	}
	secret := totp.NewSecret(x.env)
	uri := totp.URI(x.opt.Server, account, secret)
	picture, err := svg(uri)
	if err != nil {
		return result{}, err
	}
	s := &setup{totp.Text(secret), uri, picture, ticketKey(x.opt.Key).issue(id, secret,
		x.env.Clock.Now().Add(ticketLife))}
	return result{value: s, setup: s}, nil
}

// ticketKey authenticates tickets: a secret, the time until which it may be confirmed, and a MAC that binds both to a
// session.
type ticketKey []byte

// issue returns a ticket that only this session can confirm.
func (k ticketKey) issue(id *Identity, secret []byte, until time.Time) string {
	b := binary.BigEndian.AppendUint64(append([]byte(nil), secret...), uint64(until.Unix()))
	return base64.RawURLEncoding.EncodeToString(append(b, k.mac(id, b)...))
}

func (k ticketKey) mac(id *Identity, b []byte) []byte {
	m := hmac.New(sha256.New, k)
	m.Write([]byte("second factor\x00"))
	m.Write(id.Who.Person[:])
	m.Write(id.Session.ID[:])
	m.Write(b)
	return m.Sum(nil)
}

// open verifies a ticket and returns its secret.
func (k ticketKey) open(id *Identity, text string, now time.Time) ([]byte, error) {
	const body = totp.SecretLen + 8
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != body+sha256.Size || !hmac.Equal(b[body:], k.mac(id, b[:body])) ||
		!now.Before(time.Unix(int64(binary.BigEndian.Uint64(b[totp.SecretLen:body])), 0)) {
		return nil, bad("tookLong")
	}
	return b[:totp.SecretLen], nil
}

// confirm enables the second factor after the device has generated a valid code. It starts a new session for the
// browser and ends all others.
func (x totpDoor) confirm(w http.ResponseWriter, r *http.Request, id *Identity, in *input) (result, error) {
	ctx := r.Context()
	secret, err := ticketKey(x.opt.Key).open(id, in.Ticket, x.env.Clock.Now())
	if err != nil {
		return result{}, err
	}
	step, ok := totp.Check(secret, in.Code, x.env.Clock.Now())
	if ok {
		if ok, err = x.in.ConfirmCode(ctx, id.Who.Person, step); err != nil {
			return result{}, err
		}
	}
	if !ok {
		return result{}, &clientError{http.StatusBadRequest, "wrong code", "deviceCodeWrong"}
	}
	codes, err := x.factors.Set(ctx, id.Who, id.Who.Person, secret)
	if err != nil {
		return result{}, err
	}
	x.env.Log.Info("person set up a second factor", "person", id.Name, "remote", signin.Remote(r).String())
	account, p, err := x.in.Known(ctx, id.Who.Person)
	if err != nil {
		return result{}, err
	}
	proved := signin.Proved{Account: account, PasswordID: p.PasswordID, Second: true}
	fresh, err := x.Service.begin(w, r, &proved, id.Session.Keep)
	if err != nil {
		return result{}, err
	}
	if _, err := x.sessions.EndAll(ctx, id.Who.Person, fresh.Session.ID); err != nil {
		return result{}, err
	}
	fresh.Person = p
	*id = *fresh
	return result{value: recoveryCodes{codes, x.sessions.CSRF(fresh.token)}, codes: codes, said: "factorOn"}, nil
}

// end disables the second factor.
func (x totpDoor) end(_ http.ResponseWriter, r *http.Request, id *Identity, in *input) (result, error) {
	if err := x.again(r, id, in); err != nil {
		return result{}, err
	}
	err := x.factors.Remove(r.Context(), id.Who, id.Who.Person)
	if errors.Is(err, directory.ErrNotFound) {
		return result{}, bad("factorNone")
	}
	if err != nil {
		return result{}, err
	}
	x.env.Log.Info("person turned their second factor off", "person", id.Name, "remote", signin.Remote(r).String())
	return result{value: done{"the second factor is off"}, said: "factorOff"}, nil
}

// recovery creates new recovery codes for a user.
func (x totpDoor) recovery(_ http.ResponseWriter, r *http.Request, id *Identity, in *input) (result, error) {
	if err := x.again(r, id, in); err != nil {
		return result{}, err
	}
	codes, err := x.factors.NewRecoveryCodes(r.Context(), id.Who, id.Who.Person)
	if errors.Is(err, directory.ErrNotFound) {
		return result{}, bad("factorNone")
	}
	return result{value: recoveryCodes{Codes: codes}, codes: codes, said: "recoveryNew"}, err
}

// quiet is the width of the empty margin of a QR code, in modules (ISO/IEC 18004).
const quiet = 4

// svg returns a QR code of a text as SVG.
func svg(text string) (string, error) {
	code, err := qr.Encode(text, qr.M, qr.Auto)
	if err != nil {
		return "", err
	}
	n := code.Bounds().Dx()
	side := strconv.Itoa(n + 2*quiet)
	var b strings.Builder
	b.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ` + side + " " + side +
		`" role="img" aria-label="QR code" shape-rendering="crispEdges"><path fill="#fff" d="M0 0h` + side + "v" +
		side + `H0z"/><path d="`)
	for y := range n {
		for x := 0; x < n; x++ {
			from := x
			for x < n && code.At(x, y) == color.Black {
				x++
			}
			if x > from {
				b.WriteString("M" + strconv.Itoa(from+quiet) + " " + strconv.Itoa(y+quiet) + "h" +
					strconv.Itoa(x-from) + "v1h-" + strconv.Itoa(x-from) + "z")
			}
		}
	}
	b.WriteString(`"/></svg>`)
	return b.String(), nil
}
