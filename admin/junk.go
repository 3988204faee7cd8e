package admin

import (
	"context"
	"errors"
	"fmt"
	"io"

	"doublet/mail/junk"
	"doublet/note"
	"doublet/wire/mime"
)

// JunkOf are the arguments of junk show and junk forget.
type JunkOf struct {
	Person string `json:"person" arg:"required" help:"name or address of the person"`
}

// JunkLearned shows how much a junk filter has learned.
type JunkLearned struct {
	// Model is "own" for what the person filed, "server" for what those filed who share.
	Model string `json:"model"`
	// Junk and NotJunk are numbers of messages, Correspondents that of the addresses to which the person wrote.
	Junk           int `json:"junk" show:"always"`
	NotJunk        int `json:"notJunk" show:"always"`
	Correspondents int `json:"correspondents"`
	// Acts is set if that is enough for verdicts.
	Acts bool `json:"acts" show:"always"`
}

// JunkTest are the arguments of junk test.
type JunkTest struct {
	Person string `json:"person" arg:"required" help:"name or address of the recipient"`
	File   string `json:"file" arg:"required" file:"true" help:"file with one message"`
}

func junks() []*Verb {
	return []*Verb{
		define("junk show", "show how much the junk filter has learned from a person", junkShow),
		define("junk test", "show the verdict of the junk filter on a message", junkTest, machine),
		define("junk forget", "forget what the junk filter has learned from a person", junkForget, changes),
	}
}

// errNoJunk reports that the junk filter is off.
var errNoJunk = fmt.Errorf("%w: the junk filter is off (junk.enabled)", ErrUsage)

// junkOf returns the mail file of a person.
func junkOf(ctx context.Context, c *Call, person string) (note.DatabaseID, error) {
	if c.Junk == nil {
		return 0, errNoJunk
	}
	p, _, err := c.mailFile(ctx, person)
	return p.MailDatabase, err
}

func junkShow(ctx context.Context, c *Call, a *JunkOf) ([]JunkLearned, error) {
	db, err := junkOf(ctx, c, a.Person)
	if err != nil {
		return nil, err
	}
	own, all, err := c.Junk.Show(ctx, db)
	if err != nil {
		return nil, err
	}
	return []JunkLearned{
		{Model: "own", Junk: own.Junk, NotJunk: own.Good, Correspondents: own.Known, Acts: own.Ready},
		{Model: "server", Junk: all.Junk, NotJunk: all.Good, Acts: all.Ready},
	}, nil
}

func junkTest(ctx context.Context, c *Call, a *JunkTest) (Done, error) {
	db, err := junkOf(ctx, c, a.Person)
	if err != nil {
		return Done{}, err
	}
	raw, err := messageFile(c, a.File)
	if err != nil {
		return Done{}, err
	}
	v, err := c.Junk.Classify(ctx, db, junk.NewMessage(raw, mime.Parse(raw, mime.Limits{})))
	return Done{"junk: " + v.String()}, err
}

// messageFile reads a file with one message.
func messageFile(c *Call, name string) ([]byte, error) {
	f, err := c.Env.FS.Open(name)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxTested+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if len(raw) > maxTested {
		return nil, fmt.Errorf("%w: %s is larger than %s", ErrUsage, name, Size(maxTested))
	}
	return mime.AppendCRLF(nil, raw), nil
}

func junkForget(ctx context.Context, c *Call, a *JunkOf) (Done, error) {
	db, err := junkOf(ctx, c, a.Person)
	if err != nil {
		return Done{}, err
	}
	return Done{"the junk filter has forgotten what " + a.Person + " filed"}, c.Junk.Forget(ctx, db)
}
