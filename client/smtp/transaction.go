package smtp

import (
	"fmt"
	"io"
	"strconv"

	"doublet/wire/smtp"
)

// Mail starts a transaction. It sends the Size of params only if it is positive.
func (c *Client) Mail(from smtp.Path, params smtp.MailParams) error {
	c.pending = 0
	c.out = smtp.AppendMail(c.out, from, params)
	_, err := c.expect("MAIL")
	return err
}

// Rcpt adds a recipient.
func (c *Client) Rcpt(to smtp.Path, params smtp.RcptParams) error {
	c.out = smtp.AppendRcpt(c.out, to, params)
	_, err := c.expect("RCPT")
	if err == nil {
		c.pending++
	}
	return err
}

// Data is the body of a message being sent. Write takes CRLF lines without dot-stuffing.
type Data struct {
	c    *Client
	dots *smtp.DotWriter
}

// Data sends DATA and returns the writer for the message.
func (c *Client) Data() (*Data, error) {
	c.out = append(c.out, "DATA\r\n"...)
	if _, err := c.expect("DATA"); err != nil {
		return nil, err
	}
	return c.newData(), nil
}

func (c *Client) newData() *Data {
	d := &Data{c: c}
	d.dots = smtp.NewDotWriter(outWriter{c})
	return d
}

// outWriter collects the small pieces from dot-stuffing into few writes.
type outWriter struct{ c *Client }

func (w outWriter) Write(p []byte) (int, error) {
	w.c.out = append(w.c.out, p...)
	if len(w.c.out) >= 32<<10 {
		return len(p), w.c.flush()
	}
	return len(p), nil
}

// Write sends a piece of the message.
func (d *Data) Write(p []byte) (int, error) {
	const piece = 64 << 10
	n := 0
	for len(p) > 0 {
		k, err := d.dots.Write(p[:min(piece, len(p))])
		n += k
		if err != nil {
			return n, err
		}
		p = p[k:]
	}
	return n, nil
}

// Close ends the message and reads the reply. If it returns nil, the server has accepted the message. In LMTP use
// Results instead.
func (d *Data) Close() error {
	_, err := d.Finish()
	return err
}

// Finish is like Close, and also returns the reply.
func (d *Data) Finish() (*smtp.Reply, error) {
	if err := d.dots.Close(); err != nil {
		return nil, err
	}
	d.c.pending = 0
	return d.c.expect("end of data")
}

// Results ends the message. In LMTP it reads one reply for each accepted recipient, in their order; in SMTP it reads
// the single reply.
//
// Implements: RFC 2033 §4.2 Replies per recipient at the client
func (d *Data) Results() ([]*smtp.Reply, error) {
	if err := d.dots.Close(); err != nil {
		return nil, err
	}
	return d.c.results()
}

func (c *Client) results() ([]*smtp.Reply, error) {
	n := 1
	if c.opts.LMTP {
		n = c.pending
	}
	c.pending = 0
	all := make([]*smtp.Reply, 0, n)
	for range n {
		r, err := c.reply()
		if err != nil {
			return all, fmt.Errorf("smtp: end of data: %w", err)
		}
		all = append(all, r)
	}
	return all, nil
}

// BDAT sends a chunk and reads its reply. After the last chunk it returns the same replies as Results.
//
// Implements: RFC 3030 §2 BDAT by the client
func (c *Client) BDAT(chunk []byte, last bool) ([]*smtp.Reply, error) {
	c.out = append(c.out, "BDAT "...)
	c.out = strconv.AppendInt(c.out, int64(len(chunk)), 10)
	if last {
		c.out = append(c.out, " LAST"...)
	}
	c.out = append(append(c.out, '\r', '\n'), chunk...)
	if last {
		return c.results()
	}
	r, err := c.reply()
	if err != nil {
		return nil, fmt.Errorf("smtp: BDAT: %w", err)
	}
	return []*smtp.Reply{r}, nil
}

// Outgoing is one message with its envelope.
type Outgoing struct {
	From   smtp.Path
	Params smtp.MailParams
	To     []smtp.Path
	// RcptParams is empty or has one element for each of To.
	RcptParams []smtp.RcptParams
	Message    []byte // CRLF lines, not dot-stuffed
	// Prefix holds header fields that are sent before Message, so that the caller need not copy Message to prepend
	// them.
	Prefix []byte
}

// Result is the outcome of an Outgoing. A reply is nil if the transaction ended before it.
type Result struct {
	Mail *smtp.Reply
	Rcpt []*smtp.Reply // one for each of Outgoing.To, if MAIL was accepted
	// Final has one reply in SMTP. In LMTP it has one reply for each recipient with a positive Rcpt.
	Final []*smtp.Reply
}

// Accepted reports whether the server has taken responsibility for the message to recipient i.
func (r *Result) Accepted(i int) bool {
	if i >= len(r.Rcpt) || !r.Rcpt[i].Positive() || len(r.Final) == 0 {
		return false
	}
	k := 0
	if len(r.Final) > 1 {
		for _, earlier := range r.Rcpt[:i] {
			if earlier.Positive() {
				k++
			}
		}
	}
	return k < len(r.Final) && r.Final[k].Positive()
}

// Deliver sends a message. If the server offers PIPELINING, this takes two round trips. The server's replies,
// rejections too, are in the Result; err is a broken connection or a protocol error.
//
// Implements: RFC 2920 PIPELINING by the client
func (c *Client) Deliver(m *Outgoing) (res Result, err error) {
	c.pending = 0
	_, pipe := c.ext["PIPELINING"]
	c.out = smtp.AppendMail(c.out, m.From, m.Params)
	if !pipe {
		if res.Mail, err = c.reply(); err != nil || !res.Mail.Positive() {
			return res, err
		}
	}
	// The window limits the number of unanswered commands, so that neither side fills the other's buffers.
	const window = 100
	res.Rcpt = make([]*smtp.Reply, 0, len(m.To))
	for i, to := range m.To {
		var p smtp.RcptParams
		if i < len(m.RcptParams) {
			p = m.RcptParams[i]
		}
		c.out = smtp.AppendRcpt(c.out, to, p)
		if last := i == len(m.To)-1; last && pipe || pipe && (i+1)%window != 0 {
			continue
		}
		if err = c.rcptReplies(&res, i+1); err != nil {
			return res, err
		}
	}
	c.out = append(c.out, "DATA\r\n"...)
	if err = c.rcptReplies(&res, len(m.To)); err != nil {
		return res, err
	}
	data, err := c.reply()
	if err != nil {
		return res, err
	}
	if data.Code != 354 {
		if res.Mail.Positive() {
			res.Final = []*smtp.Reply{data}
		} else {
			res.Rcpt = nil
		}
		return res, c.Reset()
	}
	if !res.Mail.Positive() {
		// The server rejected MAIL but accepted DATA: there is no way to know what it would do with a message.
		return res, fmt.Errorf("smtp: DATA: %w", smtp.ErrMalformedReply)
	}
	if c.pending == 0 {
		// The server accepted DATA without recipients: an empty message ends the transaction.
		c.out = append(c.out, smtp.MessageEnd...)
		r, err := c.reply()
		res.Final = []*smtp.Reply{r}
		return res, err
	}
	d := c.newData()
	if _, err = d.Write(m.Prefix); err == nil {
		_, err = d.Write(m.Message)
	}
	if err != nil {
		return res, err
	}
	res.Final, err = d.Results()
	return res, err
}

// rcptReplies reads the outstanding replies: to MAIL, and to the first upTo recipients.
func (c *Client) rcptReplies(res *Result, upTo int) (err error) {
	if res.Mail == nil {
		if res.Mail, err = c.reply(); err != nil {
			return err
		}
	}
	for len(res.Rcpt) < upTo {
		r, err := c.reply()
		if err != nil {
			return err
		}
		if r.Positive() {
			c.pending++
		}
		res.Rcpt = append(res.Rcpt, r)
	}
	return nil
}

// CopyData sends a message from a reader. A reply that is not positive is returned as the error.
func (c *Client) CopyData(message io.Reader) (*smtp.Reply, error) {
	d, err := c.Data()
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(d, message); err != nil {
		return nil, err
	}
	return d.Finish()
}
