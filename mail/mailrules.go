package mail

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"doublet/directory"
	"doublet/env"
	"doublet/mail/fields"
	"doublet/mail/mailrule"
	"doublet/note"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// MailRules applies the mail rules of the domain, which are documents in the directory, to the messages that this
// server accepts. Rules are compiled when their documents change. Its methods may be called from any goroutine.
type MailRules struct {
	dir   *directory.Directory
	env   *env.Env
	stat  *ruleStats
	opt   *Options
	table atomic.Pointer[ruleTable]
	// compiling is held while a new table is made, so that each edition is compiled and logged once.
	compiling sync.Mutex
}

// ruleTable holds the compiled rules of one edition of the documents.
type ruleTable struct {
	edition uint64
	set     *mailrule.Set // nil without rules that are on
	ids     map[*mailrule.Rule]note.UNID
	matches map[note.UNID]*atomic.Uint64 // of all documents, by their ID
	names   map[note.UNID]string
	// unreadable holds the errors of documents that cannot be compiled.
	unreadable map[note.UNID]error
}

func newMailRules(d *directory.Directory, e *env.Env, o *Options) *MailRules {
	m := &MailRules{dir: d, env: e, opt: o}
	m.stat = newRuleStats(o.Stats, m)
	return m
}

// now returns the present rules.
func (m *MailRules) now(ctx context.Context) (*ruleTable, error) {
	list, edition, err := m.dir.MailRules.List(ctx)
	if err != nil {
		return nil, err
	}
	if t := m.table.Load(); t != nil && t.edition == edition {
		return t, nil
	}
	m.compiling.Lock()
	defer m.compiling.Unlock()
	old := m.table.Load()
	if old != nil && old.edition >= edition { // editions only grow
		return old, nil
	}
	t := &ruleTable{edition: edition, ids: map[*mailrule.Rule]note.UNID{}, matches: map[note.UNID]*atomic.Uint64{},
		names: map[note.UNID]string{}, unreadable: map[note.UNID]error{}}
	var rules []*mailrule.Rule
	for i := range list {
		d := &list[i]
		t.names[d.ID], t.matches[d.ID] = d.Name, &atomic.Uint64{}
		if old != nil && old.matches[d.ID] != nil {
			t.matches[d.ID] = old.matches[d.ID]
		}
		f, err := mailrule.Parse(d.Text)
		if err == nil && i >= directory.MaxMailRules {
			err = fmt.Errorf("%w: at most %d mail rules", directory.ErrTooMany, directory.MaxMailRules)
		}
		if err != nil {
			t.unreadable[d.ID] = err
			m.env.Log.Error("mail: mail rule is not applied", "rule", d.Name, "err", err)
			continue
		}
		if !d.Off {
			r := mailrule.Compile(d.Name, f)
			rules, t.ids[r] = append(rules, r), d.ID
		}
	}
	t.set = mailrule.NewSet(rules)
	m.table.Store(t)
	return t, nil
}

// RuleState is the state of a mail rule on this server.
type RuleState struct {
	// Matches counts the messages that the rule matched since the start.
	Matches uint64
	// Err is the error of a document that cannot be read, or nil.
	Err error
}

// State returns the states of the mail rules by the IDs of their documents.
func (m *MailRules) State(ctx context.Context) (map[note.UNID]RuleState, error) {
	t, err := m.now(ctx)
	if err != nil {
		return nil, err
	}
	out := make(map[note.UNID]RuleState, len(t.names))
	for id, n := range t.matches {
		out[id] = RuleState{n.Load(), t.unreadable[id]}
	}
	return out, nil
}

// matchesText lists the matches of the rules that matched, in the order of their names.
func (m *MailRules) matchesText() string {
	t := m.table.Load()
	if t == nil {
		return ""
	}
	var out []string
	for id, n := range t.matches {
		if v := n.Load(); v > 0 {
			out = append(out, fmt.Sprintf("%s=%d", t.names[id], v))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// Unreadable lists the mail rules that cannot be read, as "NAME: REASON".
func (m *MailRules) Unreadable(ctx context.Context) ([]string, error) {
	t, err := m.now(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]string, 0, len(t.unreadable))
	for id, err := range t.unreadable {
		out = append(out, t.names[id]+": "+err.Error())
	}
	slices.Sort(out)
	return out, nil
}

// Try runs the rules over a message without carrying out actions: those of the domain, or one that is not stored.
func (m *MailRules) Try(ctx context.Context, sub *Submission, only *mailrule.Form) (mailrule.Outcome, error) {
	if only != nil {
		set := mailrule.NewSet([]*mailrule.Rule{mailrule.Compile("", only)})
		return set.Run(m.message(ctx, sub)), nil
	}
	t, err := m.now(ctx)
	if err != nil {
		return mailrule.Outcome{}, err
	}
	return t.set.Run(m.message(ctx, sub)), nil
}

// accepts reports whether rules apply to a submission: to mail of people and from other servers, once. Mail of another
// server of the domain has passed them there. Reports and other messages of this server pass none.
func (sub *Submission) accepts() bool {
	return (sub.Received != nil || sub.Submitter != nil) &&
		!slices.ContainsFunc(sub.Recipients, func(r Recipient) bool { return r.Params.Transit != "" })
}

// alwaysArrives reports whether all recipients are postmaster or abuse addresses of this domain.
func (sub *Submission) alwaysArrives() bool {
	return !slices.ContainsFunc(sub.Recipients, func(r Recipient) bool { return r.Outside || !AlwaysArrives(r.To) })
}

// message returns the facts of a submission for rules.
func (m *MailRules) message(ctx context.Context, sub *Submission) *mailrule.Message {
	x := &mailrule.Message{To: make([]string, len(sub.Recipients)), SignedIn: sub.Submitter != nil, Junk: sub.Junk,
		Held: sub.Hold != "", Authenticated: sub.Proven, Unauthenticated: sub.Checked && !sub.Proven,
		Forged: sub.Unproven, Arrives: sub.alwaysArrives(), Raw: sub.Message}
	if !sub.From.IsNull() {
		x.From = sub.From.String()
	}
	for i := range sub.Recipients {
		x.To[i] = sub.Recipients[i].To.String()
		x.Outside = x.Outside || sub.Recipients[i].Outside
	}
	groups := sync.OnceValue(func() map[note.UNID]bool { return m.groupsOf(ctx, sub) })
	x.Member = func(group string) bool {
		t, err := m.dir.Names.Lookup(ctx, group)
		return err == nil && groups()[t.ID]
	}
	return x
}

// groupsOf returns the groups of the submitter and the recipients, and the groups to which the message is sent.
func (m *MailRules) groupsOf(ctx context.Context, sub *Submission) map[note.UNID]bool {
	out := map[note.UNID]bool{}
	add := func(person note.UNID) {
		out[person] = true // the entry may be a group itself
		groups, err := m.dir.Names.AllGroupsOf(ctx, person)
		if err != nil {
			return
		}
		for _, g := range groups {
			out[g] = true
		}
	}
	if s := sub.Submitter; s != nil {
		add(s.Who.Person)
	}
	for i := range sub.Recipients {
		if id := sub.Recipients[i].Target.ID; !id.IsZero() {
			add(id)
		}
	}
	return out
}

// acceptRuled applies the mail rules to a submission, and accepts it as they want. sub itself is not changed. results
// is as of Deposit.
func (s *Depositor) acceptRuled(ctx context.Context, sub *Submission, results []error) (*batch, error) {
	if !sub.accepts() {
		return s.accept(ctx, sub, results)
	}
	t, err := s.rules.now(ctx)
	if err != nil {
		return nil, fmt.Errorf("mail: deposit: %w", err)
	}
	if t.set == nil {
		return s.accept(ctx, sub, results)
	}
	start := s.env.Clock.Now()
	out := t.set.Run(s.rules.message(ctx, sub))
	ruled, err := s.rules.carryOut(ctx, s, t, sub, &out)
	s.rules.stat.time.ObserveDuration(s.env.Clock.Now().Sub(start))
	if err != nil {
		return nil, err
	}
	if !ruled.replaced && len(ruled.Recipients) == len(sub.Recipients) {
		return s.accept(ctx, ruled, results)
	}
	// The recipients that rules add share one result after those of the envelope. It is the only one if they replace
	// them.
	kept := len(results)
	if ruled.replaced {
		kept = 0
	}
	inner := make([]error, kept+1)
	b, err := s.accept(ctx, ruled, inner)
	copy(results, inner[:kept])
	for i := range results[kept:] {
		results[kept+i] = inner[kept]
	}
	if kept > 0 && inner[kept] != nil {
		s.rules.failed(sub, "a recipient that a rule adds was refused", inner[kept])
	}
	return b, err
}

// carryOut returns the submission as the rules want it: sub itself if they change nothing. The error is the reply of a
// rule that refuses the message.
func (m *MailRules) carryOut(ctx context.Context, s *Depositor, t *ruleTable, sub *Submission,
	out *mailrule.Outcome) (*Submission, error) {
	if len(out.Matched) == 0 {
		return sub, nil
	}
	for _, r := range out.Matched {
		t.matches[t.ids[r]].Add(1)
	}
	m.stat.matched.Add(uint64(len(out.Matched)))
	m.log(sub, out)
	if out.Refuse != "" {
		m.stat.refused.Inc()
		return nil, smtp.NewReply(550, 5, 7, 1, out.Refuse)
	}
	ruled := *sub
	ruled.folder, ruled.journal = out.Move, out.Journal
	if ruled.journal && s.recorder == nil {
		m.failed(sub, "a rule cannot journal a message", errors.New("journal is off"))
	}
	m.extend(&ruled, out.Texts)
	return &ruled, m.readdress(ctx, s, t, &ruled, out)
}

// log logs the rules that a message matched.
func (m *MailRules) log(sub *Submission, out *mailrule.Outcome) {
	if m.opt.Quiet {
		return
	}
	names := make([]string, len(out.Matched))
	for i, r := range out.Matched {
		names[i] = r.Name
	}
	m.env.Log.Info("mail: rules matched", "id", sub.ID.String(), "rules", fields.Logged(strings.Join(names, ", ")))
}

// failed counts and logs an action that cannot be carried out. The message is delivered without it.
func (m *MailRules) failed(sub *Submission, what string, err error) {
	m.stat.failed.Inc()
	m.env.Log.Warn("mail: "+what, "id", sub.ID.String(), "err", err)
}

// extend puts texts under a message that a person here sends.
func (m *MailRules) extend(sub *Submission, texts []string) {
	if len(texts) == 0 {
		return
	}
	var longer []byte
	var err error
	switch {
	case sub.Submitter == nil:
		err = errors.New("message is not from a person who signed in")
	case isResent(sub.Message[:mime.HeaderEnd(sub.Message)]): // it must be the message that was delivered
		err = errors.New("message is resent")
	default:
		longer, err = mailrule.AddText(sub.Message, strings.Join(texts, "\n\n"))
	}
	if err != nil {
		m.failed(sub, "a rule's text is left out", err)
		return
	}
	sub.Message, sub.Head = longer, nil
}

// readdress adds the recipients that rules want, or replaces those of the envelope. A message that comes back to this
// domain, after a rule sent it to another one, keeps its recipients: a field marks it, with a code that only servers of
// this domain can make.
func (m *MailRules) readdress(ctx context.Context, s *Depositor, t *ruleTable, sub *Submission,
	out *mailrule.Outcome) error {
	var added []Recipient
	var marks []byte
	for _, c := range out.Recipients {
		mark := m.mark(sub, t.ids[c.Rule])
		if marked(sub.Message, mark) {
			continue
		}
		r, err := m.recipient(ctx, s, sub, c)
		var reply *smtp.Reply
		switch {
		case errors.As(err, &reply):
			m.failed(sub, "a recipient that a rule adds is left out", fmt.Errorf("%s: %w", c.Address, err))
			continue
		case err != nil:
			return err
		}
		if line := fieldRule + ": " + mark + "\r\n"; r.Outside && !strings.Contains(string(marks), line) {
			marks = append(marks, line...)
		}
		sub.replaced = sub.replaced || c.Replaces
		added = append(added, r)
	}
	if sub.replaced { // not if all replacements are left out: somebody has to get the message
		sub.Recipients = nil
	}
	sub.Fields = append(marks, sub.Fields...)
	sub.Recipients = append(slices.Clip(sub.Recipients), added...)
	return nil
}

// recipient resolves a recipient that a rule adds. A failure is reported to the sender only if the recipient replaces
// those whom the sender named.
func (m *MailRules) recipient(ctx context.Context, s *Depositor, sub *Submission,
	c mailrule.Change) (Recipient, error) {
	p := smtp.RcptParams{Notify: smtp.NotifyNever}
	if c.Replaces && !sub.Unproven {
		p.Notify = 0
	}
	to, err := smtp.ParsePath(c.Address)
	if err != nil {
		return Recipient{}, replyAddress
	}
	r, err := s.Accept(ctx, to, p, uint64(len(sub.Message)))
	if errors.Is(err, replyQuota) { // the message waits for room
		err = nil
	}
	r.added = true
	return r, err
}

// fieldRule is the header field that marks a message of which a rule changed the recipients.
const fieldRule = "Doublet-Mail-Rule"

// mark returns the value of fieldRule for a message and a rule. It reveals neither.
func (m *MailRules) mark(sub *Submission, rule note.UNID) string {
	id, ok := mime.Get(sub.Message[:mime.HeaderEnd(sub.Message)], "Message-ID")
	if !ok && sub.Submitter != nil {
		id = messageIDFor(sub, m.opt.Hostname)
	}
	return hex.EncodeToString(m.dir.Secret.Sign("mail rule", rule.String()+" "+strings.TrimSpace(id)))
}

func marked(message []byte, mark string) bool {
	for f := range mime.Fields(message[:mime.HeaderEnd(message)]) {
		if f.Is(fieldRule) && strings.TrimSpace(f.Text()) == mark {
			return true
		}
	}
	return false
}
