package probe

import (
	"fmt"
	"slices"
	"strings"
)

// Severity orders events by their urgency, as Domino does.
type Severity int

// The severities, the least one first.
const (
	Normal Severity = iota
	WarningLow
	WarningHigh
	Failure
	Fatal
)

var severityWords = []string{"normal", "warning-low", "warning-high", "failure", "fatal"}

// String returns the severity's word, such as warning-high.
func (s Severity) String() string {
	if s < 0 || int(s) >= len(severityWords) {
		return severityWords[Normal]
	}
	return severityWords[s]
}

// MarshalText returns the severity's word.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText accepts the words of String.
func (s *Severity) UnmarshalText(word []byte) error {
	v, err := ParseSeverity(string(word))
	*s = v
	return err
}

// ParseSeverity returns the severity of a word, in any case.
func ParseSeverity(word string) (Severity, error) {
	i := slices.Index(severityWords, strings.ToLower(word))
	if i < 0 {
		return Normal, fmt.Errorf("severity %q is not one of %s", word, strings.Join(severityWords, ", "))
	}
	return Severity(i), nil
}

// Type is the area of a probe.
type Type string

// The types of probes.
const (
	Messaging   Type = "Messaging"
	System      Type = "System"
	Database    Type = "Database"
	Directory   Type = "Directory"
	Security    Type = "Security"
	Replication Type = "Replication"
	Web         Type = "Web"
	Server      Type = "Server"
	Backup      Type = "Backup"
)

// Types lists all types of probes.
var Types = []Type{Messaging, System, Database, Directory, Security, Replication, Web, Server, Backup}

// State is the state of an event.
type State string

// The states of an event. A closed event opens again when its cause returns; a permanently closed one does not.
const (
	StateOpen      State = "open"
	StateClosed    State = "closed"
	StatePermanent State = "permanently-closed"
)
