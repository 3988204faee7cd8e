// Package condition lists the conditions in which a server cannot execute a valid command, with the reply of each
// protocol. So all servers report the same condition in the same way.
package condition

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"doublet/directory/assist"
	"doublet/mailbox"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/store"
	"doublet/wire/smtp"
)

// Condition is a condition with its replies.
type Condition struct {
	// Name describes the condition for administrators.
	Name string
	// SMTP is the reply of SMTP, submission and LMTP. Reply 421 closes the session (RFC 5321 §3.8).
	SMTP *smtp.Reply
	// IMAP is the response code of a NO (RFC 5530, RFC 9051 §7.1). IMAPText is its text, which POP3 uses too.
	IMAP, IMAPText string
	// POP3 is the response code of -ERR (RFC 2449, RFC 3206).
	POP3 string
	// JMAP is the error type: of a SetError if Object is true (RFC 8620 §5.3), else of a method-level error (§3.6.2).
	JMAP   string
	Object bool
	// HTTP is the status for other uses of HTTP. Text is the key of the message that web pages show.
	HTTP int
	Text string

	errs []error
}

// The conditions. Those that the user can resolve (a full mail file, a message that is too large for now) are separate
// from those that require waiting.
var (
	NoSpace = &Condition{
		Name: "the device has no space above the floor", errs: []error{store.ErrNoSpace},
		SMTP: smtp.NewReply(452, 4, 3, 1, "The mail system is full, try again later"),
		IMAP: "OVERQUOTA", IMAPText: "Server is out of space", POP3: "SYS/TEMP",
		JMAP: "serverUnavailable", HTTP: http.StatusInsufficientStorage, Text: "serverFull",
	}
	OverQuota = &Condition{
		Name: "mail file is over its quota", errs: []error{mailbox.ErrOverQuota},
		SMTP: smtp.NewReply(452, 4, 2, 2, "The mail file is full"),
		IMAP: "OVERQUOTA", IMAPText: "Quota exceeded", POP3: "SYS/TEMP",
		JMAP: "overQuota", Object: true, HTTP: http.StatusInsufficientStorage, Text: "quotaOver",
	}
	NoMemory = &Condition{
		Name: "the memory for messages is in use", errs: []error{listen.ErrMemory},
		SMTP: smtp.NewReply(452, 4, 3, 1, "Too many messages in progress, try again later"),
		IMAP: "LIMIT", IMAPText: "Too many messages in progress, try again later", POP3: "SYS/TEMP",
		JMAP: "serverUnavailable", HTTP: http.StatusServiceUnavailable, Text: "tryLater",
	}
	Busy = &Condition{
		Name: "too many sign-ins at once", errs: []error{signin.ErrBusy},
		SMTP: smtp.NewReply(454, 4, 7, 0, "Too many sign-ins at once, try again later"),
		IMAP: "UNAVAILABLE", IMAPText: "Too many sign-ins at once, try again later", POP3: "SYS/TEMP",
		JMAP: "serverUnavailable", HTTP: http.StatusTooManyRequests, Text: "tryLater",
	}
	DirectoryAway = &Condition{
		Name: "another directory, which has a person's password or a group, cannot be reached",
		errs: []error{assist.ErrAway},
		SMTP: smtp.NewReply(451, 4, 4, 3, "The directory cannot be reached now, try again later"),
		IMAP: "UNAVAILABLE", IMAPText: "The directory cannot be reached now, try again later", POP3: "SYS/TEMP",
		JMAP: "serverUnavailable", HTTP: http.StatusServiceUnavailable, Text: "tryLater",
	}
	Elsewhere = &Condition{
		Name: "the mail file is on another server, or on its way to one",
		errs: []error{store.ErrNotHome, store.ErrIncomplete, mailbox.ErrParted, mailbox.ErrPartly},
		SMTP: smtp.NewReply(451, 4, 3, 2, "The mail file is moving to another server, try again soon"),
		IMAP: "UNAVAILABLE", IMAPText: "The mail file has moved to another server, sign in again", POP3: "SYS/TEMP",
		JMAP: "serverUnavailable", HTTP: http.StatusServiceUnavailable, Text: "mailElsewhere",
	}
	OutOfService = &Condition{
		Name: "the database is out of service", errs: []error{store.ErrOutOfService},
		SMTP: smtp.NewReply(451, 4, 3, 0, "A database of the server is out of service, try again later"),
		IMAP: "UNAVAILABLE", IMAPText: "Mail file is out of service", POP3: "SYS/TEMP",
		JMAP: "serverUnavailable", HTTP: http.StatusServiceUnavailable, Text: "mailOutOfService",
	}
	Damaged = &Condition{
		Name: "stored data is damaged", errs: []error{store.ErrDamaged},
		SMTP: smtp.NewReply(451, 4, 3, 0, "Stored data is damaged, the administrator has been told"),
		IMAP: "CORRUPTION", IMAPText: "Stored data is damaged", POP3: "SYS/PERM",
		JMAP: "serverFail", HTTP: http.StatusInternalServerError, Text: "damaged",
	}
	Away = &Condition{
		Name: "a part of the data is at data.segments_archive, which cannot be reached", errs: []error{store.ErrAway},
		SMTP: smtp.NewReply(451, 4, 3, 0, "A part of the data cannot be reached now, try again later"),
		IMAP: "UNAVAILABLE", IMAPText: "A part of the data cannot be reached now, try again later", POP3: "SYS/TEMP",
		JMAP: "serverUnavailable", HTTP: http.StatusServiceUnavailable, Text: "tryLater",
	}
	Closing = &Condition{
		Name: "the server is shutting down", errs: []error{store.ErrClosed, listen.ErrClosing, context.Canceled},
		SMTP: smtp.NewReply(421, 4, 3, 2, "Server is shutting down"),
		IMAP: "UNAVAILABLE", IMAPText: "Server is shutting down", POP3: "SYS/TEMP",
		JMAP: "serverUnavailable", HTTP: http.StatusServiceUnavailable, Text: "tryLater",
	}
	// Trouble stands for all other failures. The log has the cause.
	Trouble = &Condition{
		Name: "another failure, which the log explains",
		SMTP: smtp.NewReply(451, 4, 3, 0, "Temporary trouble here, try again later"),
		IMAP: "UNAVAILABLE", IMAPText: "Temporary failure, try again later", POP3: "SYS/TEMP",
		JMAP: "serverFail", HTTP: http.StatusServiceUnavailable, Text: "tryLater",
	}
)

// All lists the conditions. The first that matches an error applies.
var All = []*Condition{NoSpace, OverQuota, NoMemory, Busy, DirectoryAway, Elsewhere, OutOfService, Away, Damaged,
	Closing, Trouble}

// Of returns the condition of an error. For an error without one it returns Trouble and false.
func Of(err error) (c *Condition, known bool) {
	for _, c := range All {
		if c.Is(err) {
			return c, true
		}
	}
	return Trouble, false
}

// Is reports whether an error belongs to the condition.
func (c *Condition) Is(err error) bool {
	for _, is := range c.errs {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// Errors returns the errors of the condition, for tests.
func (c *Condition) Errors() []error { return c.errs }

// Markdown returns the content of doc/replies.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(`# Replies of the server in trouble

Generated by ` + "`make gen`" + ` from ` + "`serve/condition`" + `; do not edit.

When a server cannot carry out a valid command, every door says so in the words of its protocol. Programs try
again where the reply is temporary (SMTP 4xx, ` + "`SYS/TEMP`, `UNAVAILABLE`, `serverUnavailable`" + `, HTTP 503).

| condition | SMTP, submission, LMTP | IMAP | POP3 | JMAP | HTTP |
|---|---|---|---|---|---|
`)
	for _, c := range All {
		fmt.Fprintf(&b, "| %s | `%s` | `NO [%s] %s` | `-ERR [%s]` | `%s` | %d |\n", c.Name, c.SMTP.Error(), c.IMAP,
			c.IMAPText, c.POP3, c.JMAP, c.HTTP)
	}
	return b.String()
}
