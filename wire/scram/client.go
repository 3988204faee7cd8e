package scram

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
)

// Client is the client side of one exchange. It needs three calls of Next: the first with nothing, the others with the
// server's first and final message.
type Client struct {
	user, password, nonce string
	header                string // gs2-header
	bound                 []byte
	step                  int
	bare                  string
	signature             [32]byte // the expected signature of the server
}

// NewClient starts an exchange. nonce must be random, printable, and without commas.
func NewClient(user, password, nonce string) *Client {
	return &Client{user: user, password: password, nonce: nonce, header: "n,,"}
}

// Bind selects SCRAM-SHA-256-PLUS: the proof is valid only on this channel. Call it before the first step.
func (c *Client) Bind(b Binding) {
	c.header, c.bound = "p="+b.Name+",,", b.Data
}

// NotOffered records that the client supports channel binding, but the server did not offer it. A server that
// did offer it then detects that an attacker changed its offer. Call it before the first step.
func (c *Client) NotOffered() { c.header = "y,," }

// Next processes the server's message (none at first) and returns the message to send. done reports that the server has
// proved knowledge of the user's credentials; then there is nothing more to send.
func (c *Client) Next(in []byte) (out []byte, done bool, err error) {
	step := c.step
	c.step = 3
	if len(in) > maxMessage {
		return nil, false, fmt.Errorf("%w: too long", ErrSyntax)
	}
	switch step {
	case 0:
		if !validNonce(c.nonce) || c.user == "" || strings.IndexByte(c.user, 0) >= 0 {
			return nil, false, fmt.Errorf("%w: bad nonce or user name", ErrSyntax)
		}
		c.bare = "n=" + nameEscaper.Replace(Prepare(c.user)) + ",r=" + c.nonce
		c.step = 1
		return []byte(c.header + c.bare), false, nil
	case 1:
		if out, err = c.answer(string(in)); err == nil {
			c.step = 2
		}
		return out, false, err
	case 2:
		err = c.verify(string(in))
		return nil, err == nil, err
	}
	return nil, false, fmt.Errorf("%w: exchange is over", ErrSyntax)
}

func (c *Client) answer(in string) ([]byte, error) {
	if strings.HasPrefix(in, "m=") {
		return nil, ErrExtension
	}
	nonce, rest, err := attribute(in, 'r')
	if err != nil {
		return nil, err
	}
	salt64, rest, err := attribute(rest, 's')
	if err != nil {
		return nil, err
	}
	count, rest, err := attribute(rest, 'i')
	if err != nil {
		return nil, err
	}
	if err := extensions(rest); err != nil {
		return nil, err
	}
	salt, err := base64.StdEncoding.Strict().DecodeString(salt64)
	if err != nil || len(salt) == 0 {
		return nil, fmt.Errorf("%w: bad salt", ErrSyntax)
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < MinIterations || n > MaxIterations {
		return nil, fmt.Errorf("%w: iteration count out of bounds", ErrSyntax)
	}
	if !validNonce(nonce) || len(nonce) <= len(c.nonce) || !strings.HasPrefix(nonce, c.nonce) {
		return nil, fmt.Errorf("%w: nonce does not extend ours", ErrSyntax)
	}
	key := saltedPassword(c.password, salt, n)
	clientKey, serverKey := mac(key, "Client Key"), mac(key, "Server Key")
	stored := sha256.Sum256(clientKey[:])
	out := "c=" + encode(append([]byte(c.header), c.bound...)) + ",r=" + nonce
	auth := c.bare + "," + in + "," + out
	proof := xor(clientKey, mac(stored[:], auth))
	c.signature = mac(serverKey[:], auth)
	return []byte(out + ",p=" + encode(proof[:])), nil
}

func (c *Client) verify(in string) error {
	if reason, ok := strings.CutPrefix(in, "e="); ok {
		reason, _, _ = strings.Cut(reason, ",")
		return fmt.Errorf("%w: %q", ErrServer, reason)
	}
	v, rest, err := attribute(in, 'v')
	if err != nil {
		return err
	}
	if err := extensions(rest); err != nil {
		return err
	}
	sig, err := key32(v)
	if err != nil {
		return err
	}
	if !hmac.Equal(sig[:], c.signature[:]) {
		return ErrServer
	}
	return nil
}
