package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net"

	"doublet/note"
	"doublet/replica/https"
)

// auditMark begins the attributes of an audit line.
const auditMark = "kind=audit "

// entry is an audit line: the caller, the verb, its arguments, the origin and the error.
type entry struct {
	verb, by string
	person   note.UNID
	// from is the address of the caller, "" for the socket of the server's machine.
	from, args string
	err        error
	// more is the number of earlier rejected operations from there that were not logged.
	more int
}

func (s *System) writeAudit(x *entry) {
	attrs := []slog.Attr{slog.String("kind", "audit"), slog.String("verb", x.verb), slog.String("by", x.by)}
	if !x.person.IsZero() {
		attrs = append(attrs, slog.String("person", x.person.String()))
	}
	if x.from != "" {
		attrs = append(attrs, slog.String("from", x.from))
	}
	attrs = append(attrs, slog.String("args", x.args))
	level, text := slog.LevelInfo, "admin"
	if x.err != nil {
		level, text = slog.LevelWarn, "admin: refused"
		attrs = append(attrs, slog.String("error", x.err.Error()))
	}
	if x.more > 0 {
		attrs = append(attrs, slog.Int("not_shown", x.more))
	}
	s.Env.Log.LogAttrs(context.Background(), level, text, attrs...)
}

// audit logs a run of a verb, without the secrets in its arguments.
func (s *System) audit(ctx context.Context, who note.Who, v *Verb, args json.RawMessage, err error) {
	x := entry{verb: v.Name, by: "system", from: origin(ctx), args: v.redact(args), err: err}
	if !who.System {
		x.by, x.person = s.nameOf(ctx, who.Person), who.Person
	}
	s.writeAudit(&x)
}

func (s *System) nameOf(ctx context.Context, person note.UNID) string {
	name, err := s.Directory.Names.NameOf(context.WithoutCancel(ctx), person)
	if err != nil {
		return person.String()
	}
	return name
}

// AuditReplica logs an operation of a server of the domain at /replica/, or its rejection.
func (s *System) AuditReplica(a https.Act) {
	s.writeAudit(&entry{verb: a.Verb, by: cmp.Or(a.By, "nobody"), person: a.Person, from: a.From, args: a.On,
		err: a.Err, more: a.More})
}

type originKey struct{}

// withOrigin stores the address from which a verb is run.
func withOrigin(ctx context.Context, remote string) context.Context {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return ctx // a Unix socket
	}
	return context.WithValue(ctx, originKey{}, host)
}

func origin(ctx context.Context) string {
	host, _ := ctx.Value(originKey{}).(string)
	return host
}
