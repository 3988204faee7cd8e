package ldap

// The object identifiers of content synchronization.
const (
	OIDSync      = "1.3.6.1.4.1.4203.1.9.1.1"
	OIDSyncState = "1.3.6.1.4.1.4203.1.9.1.2"
	OIDSyncDone  = "1.3.6.1.4.1.4203.1.9.1.3"
)

// The modes of a sync request and the states of an entry.
const (
	SyncRefreshOnly = 1
	SyncPresent     = 0
	SyncAdd         = 1
)

// Sync is the value of a sync request control. Cookie is nil if there is none.
type Sync struct {
	Mode       int
	Cookie     []byte
	ReloadHint bool
}

// ParseSync parses the value of a sync request control.
//
// Implements: RFC 4533 §2.2 Sync request control
func ParseSync(value []byte) (Sync, error) {
	outer := reader{b: value}
	in := outer.sequence()
	q := Sync{Mode: in.number(tagEnumerated)}
	if in.peek() == tagOctets {
		q.Cookie = append([]byte{}, in.get(tagOctets)...)
	}
	if in.peek() == tagBoolean {
		q.ReloadHint = in.bool()
	}
	if err := in.end(); err != nil {
		return q, err
	}
	return q, outer.end()
}

// SyncState returns the control of an entry with a state.
//
// Implements: RFC 4533 §2.3 Sync state control
func SyncState(state int, uuid [16]byte) Control {
	b, at := open(nil, tagSequence)
	b = appendText(appendNumber(b, tagEnumerated, state), tagOctets, string(uuid[:]))
	return Control{OID: OIDSyncState, Value: shut(b, at), Valued: true}
}

// SyncDone returns the control of the result. The entries that were not mentioned are gone.
//
// Implements: RFC 4533 §2.4 Sync done control
func SyncDone(cookie []byte) Control {
	b, at := open(nil, tagSequence)
	return Control{OID: OIDSyncDone, Value: shut(appendText(b, tagOctets, string(cookie)), at), Valued: true}
}
