package imap

// NotifyEvent is a set of events (RFC 5465 section 5).
type NotifyEvent uint8

// The events. The parser knows EventAnnotation so that servers can reject it.
const (
	EventMessageNew NotifyEvent = 1 << iota
	EventMessageExpunge
	EventFlagChange
	EventMailboxName
	EventSubscription
	EventAnnotation
	EventMailboxMetadata
	EventServerMetadata
)

var eventNames = [...]string{
	"MessageNew", "MessageExpunge", "FlagChange", "MailboxName", "SubscriptionChange", "AnnotationChange",
	"MailboxMetadataChange", "ServerMetadataChange",
}

// AppendNotifyEvents prints the names of events, as in BADEVENT.
func AppendNotifyEvents(dst []byte, e NotifyEvent) []byte {
	sep := byte('(')
	for i, name := range eventNames {
		if e&(1<<i) != 0 {
			dst = append(append(dst, sep), name...)
			sep = ' '
		}
	}
	return append(dst, ')')
}

// NotifyGroup is an event group: mailboxes and the events to report for them. Without events it means NONE.
type NotifyGroup struct {
	Filter MailboxFilter
	Events NotifyEvent
	// Fetch holds the items to send with MessageNew.
	Fetch []FetchItem
	// Unknown holds the names of unknown events.
	Unknown []string
}

// Notify holds the arguments of NOTIFY. If Set is false it is NOTIFY NONE.
type Notify struct {
	Set    bool
	Status bool
	Groups []NotifyGroup
}

func (p *parser) notify() any {
	n := &Notify{}
	switch p.word() {
	case "NONE":
		return n
	case "SET":
		n.Set = true
	default:
		p.fail("Expected SET or NONE")
	}
	p.space()
	if p.tryWord("STATUS") {
		n.Status = true
		p.space()
	}
	for p.err == nil {
		p.expect('(')
		n.Groups = append(n.Groups, p.notifyGroup())
		p.expect(')')
		if len(n.Groups) > p.limits.Items {
			p.fail("Too many event groups")
		}
		if !p.try(' ') || p.end() {
			break
		}
	}
	return n
}

func (p *parser) notifyGroup() NotifyGroup {
	g := NotifyGroup{Filter: p.mailboxFilter()}
	p.space()
	if p.tryWord("NONE") {
		return g
	}
	p.expect('(')
	for p.err == nil {
		p.event(&g)
		if p.try(')') {
			break
		}
		p.space()
	}
	return g
}

func (p *parser) event(g *NotifyGroup) {
	name := p.word()
	for i, n := range eventNames {
		if upper(n) != name {
			continue
		}
		e := NotifyEvent(1) << i
		if g.Events&e != 0 {
			p.fail("The same event twice")
		}
		g.Events |= e
		if e == EventMessageNew && p.tryText(" (") {
			p.i-- // the list starts with the parenthesis
			p.list(false, func() { g.Fetch = append(g.Fetch, p.fetchItem()) })
		}
		return
	}
	g.Unknown = append(g.Unknown, name)
	if len(g.Unknown) > p.limits.Items {
		p.fail("Too many events")
	}
}

func appendNotify(dst []byte, n *Notify, u bool) []byte {
	if !n.Set {
		return append(dst, "NONE"...)
	}
	dst = append(dst, "SET"...)
	if n.Status {
		dst = append(dst, " STATUS"...)
	}
	for i := range n.Groups {
		dst = appendNotifyGroup(append(dst, " ("...), &n.Groups[i], u)
	}
	return dst
}

func appendNotifyGroup(dst []byte, g *NotifyGroup, u bool) []byte {
	dst = append(appendMailboxFilter(dst, &g.Filter, u), ' ')
	if g.Events == 0 && len(g.Unknown) == 0 {
		return append(dst, "NONE)"...)
	}
	sep := byte('(')
	for i, name := range eventNames {
		e := NotifyEvent(1) << i
		if g.Events&e == 0 {
			continue
		}
		dst = append(append(dst, sep), name...)
		sep = ' '
		if e != EventMessageNew {
			continue
		}
		for k := range g.Fetch {
			dst = append(dst, ' ')
			if k == 0 {
				dst = append(dst, '(')
			}
			dst = AppendFetchItem(dst, &g.Fetch[k])
		}
		if len(g.Fetch) > 0 {
			dst = append(dst, ')')
		}
	}
	for _, name := range g.Unknown {
		dst = append(append(dst, sep), name...)
		sep = ' '
	}
	return append(dst, "))"...)
}
