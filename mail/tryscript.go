package mail

import (
	"bytes"
	"context"
	"net/netip"
	"slices"
	"strings"

	"doublet/mail/rules"
	"doublet/mail/scripts"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/wire/mime"
)

// MaxTried is the number of messages that TryScript looks at, at most. maxTriedBytes bounds their size together.
const (
	MaxTried      = 500
	maxTriedBytes = 256 << 20
)

// ScriptTrial describes a dry run of a script over the newest messages of a folder.
type ScriptTrial struct {
	File     *mailbox.File
	Database note.DatabaseID // of File
	Address  string          // of the person, as the recipient of the messages
	Script   string
	Folder   string
	Limit    int // of messages, up to MaxTried
	// Hold reserves memory for a message of n bytes and returns the function that releases it. nil reserves none.
	Hold func(n int64) (release func(), err error)
}

// Tried is a message of a dry run, with the outcome of the script.
type Tried struct {
	UID           uint32
	EmailID       string // as mailbox.Message returns it
	From, Subject string
	Outcome       rules.Outcome
}

// TryScript runs a script over messages of a folder, the newest first, as if they were delivered now. It changes
// nothing.
// The envelope is what a message shows of it. An error of the script is of type sieve.Errors.
func (p *Depositor) TryScript(ctx context.Context, t *ScriptTrial) (out []Tried, err error) {
	view, info, err := t.File.Open(ctx, t.Folder, true)
	if err != nil {
		return nil, err
	}
	err = p.store.Read(ctx, t.File.Who(), t.Database, func(r *store.Reader) error {
		set, err := scripts.Try(r, t.Database, t.Script)
		if err != nil {
			return err
		}
		world := set.World(r, t.Database, p.env.Clock.Now(), p.filter.environment(t.Address, netip.Addr{}))
		left := int64(maxTriedBytes)
		last := info.Total - min(info.Total, uint32(max(0, min(t.Limit, MaxTried))))
		for n := info.Total; n > last && left >= 0 && err == nil; n-- {
			err = view.Fetch(ctx, mailbox.Set{{Start: n, Stop: n}}, false, mailbox.FetchOptions{},
				func(m *mailbox.Message) (bool, error) {
					if left -= m.Size(); left < 0 {
						return false, nil
					}
					one, err := p.try(ctx, t, set.Program, m, world)
					out = append(out, one)
					return false, err
				}, ctx.Err)
		}
		return err
	})
	return out, err
}

// try runs a script over a message.
func (p *Depositor) try(ctx context.Context, t *ScriptTrial, script *rules.Program, m *mailbox.Message,
	w *rules.World) (Tried, error) {
	if t.Hold != nil {
		release, err := t.Hold(m.Size())
		if err != nil {
			return Tried{}, err
		}
		defer release()
	}
	body, err := m.Body()
	if err != nil {
		return Tried{}, err
	}
	var raw bytes.Buffer
	if _, err := body.WriteTo(&raw); err != nil {
		return Tried{}, err
	}
	header := raw.Bytes()[:mime.HeaderEnd(raw.Bytes())]
	sender, _ := mime.Get(header, "Return-Path")
	from, _ := mime.Get(header, "From")
	subject, _ := mime.Get(header, "Subject")
	out := Tried{UID: m.UID, EmailID: m.EmailID(), From: brief(mime.DecodeWords(from)),
		Subject: brief(mime.DecodeWords(subject))}
	score, err := p.learned.score(ctx, t.Database, raw.Bytes())
	if err != nil {
		return Tried{}, err
	}
	out.Outcome = rules.Run(script, &rules.Message{Raw: raw.Bytes(), From: strings.Trim(sender, "<> "), To: t.Address,
		Score: score}, w)
	out.shorten()
	return out, nil
}

// maxBrief bounds a text of a dry run, in bytes.
const maxBrief = 500

func brief(s string) string {
	return strings.ToValidUTF8(strings.Clone(s[:min(len(s), maxBrief)]), "")
}

// shorten drops what nobody is shown of an outcome: the outcomes of all messages are in memory together.
func (t *Tried) shorten() {
	o := &t.Outcome
	o.Reason, o.Seen, o.Marks = brief(o.Reason), nil, nil
	if o.Header != nil {
		o.Header = []byte{}
	}
	if o.Vacation != nil {
		o.Vacation = &rules.Vacation{Subject: brief(o.Vacation.Subject)}
	}
	for i := range o.Notices {
		o.Notices[i] = rules.Notice{To: o.Notices[i].To}
	}
}

// Kept reports whether the script would do no more than keep the message where it is.
func (t *Tried) Kept() bool {
	return slices.Equal(t.Outcome.Lines(), []string{"keep"})
}
