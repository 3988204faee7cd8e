// Package rules executes Sieve scripts over messages. It is pure: Run takes a program, a message and what surrounds
// them, and returns an Outcome, the list of what is to be done. Package mail does it, in the commit of the delivery.
//
// Every run is bounded in its steps, its actions, its variables and its includes. A run that exceeds a bound, or fails
// in another way, has the outcome that a message without a script has: it is kept.
package rules

import (
	"errors"
	"fmt"
	"time"
)

// Bounds of one run.
const (
	maxSteps      = 200_000 // a step is a command, a test, or a comparison with 64 bytes
	maxActions    = 32
	maxNotices    = 5
	maxVariables  = 256
	maxValue      = 4000 // bytes of a variable
	maxText       = 64 << 10
	maxIncludes   = 50
	maxNesting    = 10       // of includes
	maxFields     = 4000     // header fields that are looked at
	maxBody       = 1 << 20  // bytes of bodies that are decoded, for each of
	maxTransforms = 16       // different transformations of the body
	maxPatterns   = 50       // regular expressions with variables, compiled in the run
	maxFlags      = 100      // on one message
	maxEdits      = 50       // header fields added
	maxEditBytes  = 16 << 10 // bytes of header fields added
)

// MaxRedirects is the number of addresses to which a script may send one message.
const MaxRedirects = 5

// DefaultDuplicate is the time for which a test "duplicate" remembers a message, and MaxDuplicate the longest.
const (
	DefaultDuplicate = 7 * 24 * time.Hour
	MaxDuplicate     = 30 * 24 * time.Hour
)

// Message is a message with its envelope.
type Message struct {
	// Raw is the message with the trace fields of this hop. A run does not change it.
	Raw      []byte
	From, To string // "" is the null sender
	// Score is that of the junk filter, from 0 (not junk) to 1 (junk). It is nil if the message was not classified.
	Score *float64
}

// World holds what a script may ask about, besides the message. A nil function knows nothing.
type World struct {
	// Now is the time of the delivery. Its time zone is that of dates, where a script names none.
	Now time.Time
	// Items are the items of the test "environment" by their names, in lower case.
	Items map[string]string
	// Include returns another script of the person. It returns nil if there is none, or it has mistakes.
	Include func(name string) *Program
	// Mailbox reports whether a folder exists, and SpecialUse whether a folder has a use such as "\Junk". The folder ""
	// asks for any.
	Mailbox    func(name string) bool
	SpecialUse func(name, use string) bool
	// Seen reports whether a mark of a test "duplicate" is known and not expired.
	Seen func(mark string) bool
}

// Filing is a place where the message is stored.
type Filing struct {
	// Folder is the full name, or "" for where the message would go without a script. Use is a special use that is
	// preferred to Folder if a folder has it.
	Folder, Use string
	Create      bool
	Flags       []string
}

// Vacation is an automatic reply.
type Vacation struct {
	Subject, From, Text string
	MIME                bool // Text is a MIME entity
	Addresses           []string
	// Handle identifies replies that are the same for the senders who get them once in Interval.
	Handle   string
	Interval time.Duration
}

// Notice is a notification by mail.
type Notice struct {
	To            []string
	From          string
	Subject, Text string
	Importance    string // "1" is high, "3" low
	Fields        [][2]string
}

// Mark is a mark of a test "duplicate" that is to be remembered.
type Mark struct {
	Name  string
	Until time.Time
}

// Outcome holds the actions of a script on a message.
type Outcome struct {
	// Filings are the places where the message is stored; none means that it is not stored.
	Filings   []Filing
	Redirects []string
	// Rejected refuses the message, with Reason as the text for its sender.
	Rejected bool
	Reason   string
	Vacation *Vacation
	Notices  []Notice
	Marks    []Mark
	// Seen are the marks that the run asked for, and the answers that it got.
	Seen map[string]bool
	// Header is the new header block of the message, or nil if it is unchanged.
	Header []byte
	// Err is the error that ended the run. The message is kept then, and nothing else is done.
	Err error
}

// Error is a failure of a script on a message, with the line of the command.
type Error struct {
	Script string // name of an included script, or ""
	Line   int
	Err    error
}

// Error returns the text with the script and the line.
func (e *Error) Error() string {
	if e.Script != "" {
		return fmt.Sprintf("script %q line %d: %v", e.Script, e.Line, e.Err)
	}
	return fmt.Sprintf("line %d: %v", e.Line, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

var (
	errSteps  = errors.New("script takes too long for this message: simplify it")
	errActive = errors.New("reject cannot be combined with another action")
)

// Run executes a program on a message.
func Run(p *Program, m *Message, w *World) Outcome {
	r := &run{world: w, message: m, steps: maxSteps, keep: true, frame: newFrame(), included: map[string]bool{}}
	_, err := r.block(p.body)
	if err == nil && r.steps < 0 { // the last command took too long
		err = errSteps
	}
	if err != nil {
		return Outcome{Filings: []Filing{{}}, Err: err, Seen: r.out.Seen}
	}
	if r.keep {
		r.file(Filing{Flags: r.flags})
	}
	if r.edited {
		r.out.Header = r.header()
	}
	return r.out
}

// file adds a place; the second filing into a folder adds only its flags.
func (r *run) file(f Filing) {
	for i := range r.out.Filings {
		old := &r.out.Filings[i]
		if old.Folder == f.Folder && old.Use == f.Use {
			old.Flags = addFlags(old.Flags, f.Flags)
			old.Create = old.Create || f.Create
			return
		}
	}
	r.out.Filings = append(r.out.Filings, f)
}
