package probe

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"doublet/note"
)

// Event is one problem of one target. It stays the same event while the problem repeats, ends and returns.
type Event struct {
	ID       string   `json:"id"`
	Type     Type     `json:"type"`
	Probe    string   `json:"probe"`
	Target   string   `json:"target,omitempty"`
	Severity Severity `json:"severity"`
	State    State    `json:"state"`
	// Cause is the latest finding, Remedy says what to do.
	Cause  string `json:"cause"`
	Remedy string `json:"remedy,omitempty"`
	// First and Last are the times of the first and the latest finding, Changed that of the latest change of state or
	// severity. Count is the number of findings, Reopened that of openings after the first one.
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	Changed  time.Time `json:"changed"`
	Count    uint64    `json:"count"`
	Reopened uint64    `json:"reopened,omitempty"`
	Assigned string    `json:"assigned,omitempty"`
	Comment  string    `json:"comment,omitempty"`
	// Silenced is the time until which nobody is notified; zero if the event is not silenced.
	Silenced time.Time `json:"silenced,omitzero"`
	// History holds the latest changes, the oldest first.
	History []string `json:"history,omitempty"`

	// worst is the greatest severity since the event opened.
	worst Severity
	// dismissed: a person closed the event, and its cause has not gone away since.
	dismissed bool
	// missing is the time of the first round that did not find the cause any more, zero if the last one found it.
	missing time.Time
	// lower is the time of the first finding in a row that was less severe than the event, zero if the last was not.
	lower time.Time
	// told is the urgency that the channels know: that of the latest change that was delivered to them, or the urgency
	// since, if that is less and not 0. sequence numbers that change.
	told     int
	sequence int64
	// saved is the time of the last write.
	saved time.Time
}

// Limits of the texts of an event, in bytes, and of its history, in entries.
const (
	maxText    = 2000
	maxTarget  = 200
	maxHistory = 50
)

// Finding is one problem that a run of a probe found.
type Finding struct {
	// Target distinguishes the findings of one probe: a destination, a folder, a server. Empty: this server.
	Target   string
	Severity Severity
	// Cause describes the problem with its values. Remedy replaces the probe's own if it is not empty.
	Cause, Remedy string
}

// unid returns the UNID of the event of a probe and a target.
func unid(probe, target string) note.UNID {
	return note.DeriveUNID([]byte("event"), []byte(probe), []byte(target))
}

// cut shortens a text to at most limit bytes and removes what is no UTF-8. Causes and targets hold texts of strangers:
// control characters become spaces, so that none begins a line of a mail, and those that turn the text around as well.
func cut(text string, limit int) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text[:min(len(text), limit)], ""))
}

// clone returns a copy that shares nothing with e.
func (e *Event) clone() *Event {
	c := *e
	c.History = slices.Clone(e.History)
	return &c
}

// remember adds an entry to the history. by is empty for the server.
func (e *Event) remember(now time.Time, by, what string) {
	if by == "" {
		by = "server"
	}
	e.History = append(e.History, cut(fmt.Sprintf("%s %s: %s", now.UTC().Format(time.RFC3339), by, what), maxText))
	e.History = e.History[max(0, len(e.History)-maxHistory):]
}

// urgency returns 0 for an event that is not open, and for an open one a number from 1 on that grows with the severity.
func (e *Event) urgency() int {
	if e.State != StateOpen {
		return 0
	}
	return 1 + int(e.Severity)
}

// owed reports whether the channels are to be notified of an event: because it has opened or become worse, or because
// they know it as open and it is not.
func (e *Event) owed() bool {
	u := e.urgency()
	return u > e.told || u == 0 && e.told > 0
}

// The items of an event.
const (
	itemForm      = "Form"
	itemType      = "ProbeType"
	itemProbe     = "Probe"
	itemTarget    = "Target"
	itemSeverity  = "Severity"
	itemState     = "State"
	itemCause     = "Cause"
	itemRemedy    = "Remedy"
	itemFirst     = "First"
	itemLast      = "Last"
	itemChanged   = "Changed"
	itemCount     = "Count"
	itemReopened  = "Reopened"
	itemAssigned  = "AssignedTo"
	itemComment   = "Comment"
	itemSilenced  = "SilencedUntil"
	itemHistory   = "History"
	itemDismissed = "Dismissed"
	itemSequence  = "Sequence"
	itemTold      = "Told"
	itemWorst     = "Worst"
	itemBy        = "By"
	itemChannel   = "Channel"

	formEvent   = "Event"
	formSilence = "Silence"
	formCursor  = "Cursor"
)

func textItem(name, value string) note.Item { return note.Item{Name: name, Value: note.Text(value)} }

func intItem(name string, value int64) note.Item {
	return note.Item{Name: name, Value: note.Int(value)}
}

func timeItem(name string, t time.Time) note.Item {
	if t.IsZero() {
		return intItem(name, 0)
	}
	return intItem(name, t.Unix())
}

func timeOf(it note.Items, name string) time.Time {
	if n := it.Get(name).AsInt(); n != 0 {
		return time.Unix(n, 0).UTC()
	}
	return time.Time{}
}

func (e *Event) items() note.Items {
	dismissed := int64(0)
	if e.dismissed {
		dismissed = 1
	}
	return note.MakeItems(
		textItem(itemForm, formEvent), textItem(itemType, string(e.Type)), textItem(itemProbe, e.Probe),
		textItem(itemTarget, e.Target), textItem(itemSeverity, e.Severity.String()),
		textItem(itemState, string(e.State)), textItem(itemCause, e.Cause), textItem(itemRemedy, e.Remedy),
		timeItem(itemFirst, e.First), timeItem(itemLast, e.Last), timeItem(itemChanged, e.Changed),
		intItem(itemCount, int64(e.Count)), intItem(itemReopened, int64(e.Reopened)),
		textItem(itemAssigned, e.Assigned), textItem(itemComment, e.Comment), timeItem(itemSilenced, e.Silenced),
		note.Item{Name: itemHistory, Value: note.TextList(e.History...)}, intItem(itemDismissed, dismissed),
		intItem(itemSequence, e.sequence), intItem(itemTold, int64(e.told)), intItem(itemWorst, int64(e.worst)),
	)
}

// parseEvent reads an event from its note.
func parseEvent(it note.Items) (*Event, error) {
	severity, err := ParseSeverity(it.Get(itemSeverity).AsText())
	if err != nil {
		return nil, err
	}
	e := &Event{
		Type: Type(it.Get(itemType).AsText()), Probe: it.Get(itemProbe).AsText(), Target: it.Get(itemTarget).AsText(),
		Severity: severity, State: State(it.Get(itemState).AsText()), Cause: it.Get(itemCause).AsText(),
		Remedy: it.Get(itemRemedy).AsText(), First: timeOf(it, itemFirst), Last: timeOf(it, itemLast),
		Changed: timeOf(it, itemChanged), Count: uint64(it.Get(itemCount).AsInt()),
		Reopened: uint64(it.Get(itemReopened).AsInt()), Assigned: it.Get(itemAssigned).AsText(),
		Comment: it.Get(itemComment).AsText(), Silenced: timeOf(it, itemSilenced),
		History:   it.Get(itemHistory).AsTextList(),
		dismissed: it.Get(itemDismissed).AsInt() != 0, sequence: it.Get(itemSequence).AsInt(),
		told: int(it.Get(itemTold).AsInt()),
	}
	e.worst = max(severity, min(Fatal, Severity(it.Get(itemWorst).AsInt())))
	switch e.State {
	case StateOpen, StateClosed, StatePermanent:
	default:
		return nil, fmt.Errorf("state %q is unknown", e.State)
	}
	if it.Get(itemTold) == nil && e.sequence > 0 { // written before the item existed
		e.told = e.urgency()
	}
	id := unid(e.Probe, e.Target)
	e.ID = hex.EncodeToString(id[:6])
	return e, nil
}
