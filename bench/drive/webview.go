package drive

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	client "doublet/client/jmap"
	wire "doublet/wire/jmap"
)

// view is the full client's knowledge of the INBOX (web/src/state/mail.ts).
type view struct {
	mu      sync.Mutex
	rows    map[string]webRow
	threads map[string][]string // the Emails of a thread, oldest first
	list    []string            // the newest Email of each thread by position, "" if not read yet
	total   int
	at      int               // the scroll position
	bodies  map[string]string // Emails that the browser has in full → left part of their Message-ID
	known
}

// webRow is an Email as a list shows it.
type webRow struct {
	thread        string
	seen, flagged bool
	inbox         bool
	size          int64
}

// As in web/src/state/mail.ts: entries of a window; entries of a folder that are kept, and how many of them with
// bodies; the largest such body, and how many are requested at once; the limit of one body in an answer.
const (
	webWindow     = 60
	webKept       = 200
	webKeptBodies = 50
	webKeptSize   = 500_000
	webBodies     = 10
	webBodyValue  = 2_000_000
	webChanges    = 500
	webMembers    = 250
)

// webRowProperties and webMessageProperties are those of web/src/jmap/types.ts.
var (
	webRowProperties = []string{"id", "threadId", "mailboxIds", "keywords", "from", "to", "subject", "receivedAt",
		"size", "preview", "hasAttachment", "messageId",
		"header:Resent-From:asAddresses:all", "header:Resent-Sender:asAddresses:all"}
	webMessageProperties = append(slices.Clone(webRowProperties), "blobId", "inReplyTo", "references", "cc", "bcc",
		"replyTo", "sentAt",
		"htmlBody", "textBody", "attachments", "bodyValues", "header:List-Unsubscribe:asURLs",
		"header:List-Unsubscribe-Post:asText", "header:Authentication-Results:asRaw:all",
		"header:Doublet-Merge-Table:asRaw")
)

// begin starts with a mailbox of which only the states are known, and with the browser's cached data.
func (v *view) begin(k known) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.known = k
	if v.rows == nil {
		v.rows, v.threads, v.bodies = map[string]webRow{}, map[string][]string{}, map[string]string{}
	}
}

// thread returns the Emails in the thread of a list's Email, oldest first.
func (v *view) thread(id string) []string {
	if all := v.threads[v.rows[id].thread]; slices.Contains(all, id) {
		return slices.Clone(all)
	}
	return []string{id}
}

// take updates the view from an Email/get of rows, and from the Thread/get that may follow it.
func (v *view) take(inbox string, rows, threads *wire.Value) {
	list := rows.Get("list")
	for i := range list.Len() {
		m := list.At(i)
		id, _ := m.Get("id").Text()
		var r webRow
		r.thread, _ = m.Get("threadId").Text()
		r.thread = strings.Clone(r.thread)
		r.seen, _ = m.Get("keywords").Get("$seen").Bool()
		r.flagged, _ = m.Get("keywords").Get("$flagged").Bool()
		r.inbox, _ = m.Get("mailboxIds").Get(inbox).Bool()
		r.size, _ = m.Get("size").Int()
		v.rows[strings.Clone(id)] = r
	}
	if threads == nil {
		return
	}
	list = threads.Get("list")
	for i := range list.Len() {
		id, _ := list.At(i).Get("id").Text()
		v.threads[strings.Clone(id)] = texts(list.At(i).Get("emailIds"))
	}
	v.prune()
}

// prune drops rows that no list shows, when there are many.
func (v *view) prune() {
	if len(v.rows) <= 4*webKept {
		return
	}
	shown, threads := map[string]bool{}, map[string]bool{}
	for _, id := range v.list {
		for _, k := range v.thread(id) {
			shown[k], threads[v.rows[k].thread] = true, true
		}
	}
	for id := range v.rows {
		if !shown[id] {
			delete(v.rows, id)
			delete(v.bodies, id)
		}
	}
	for id := range v.threads {
		if !threads[id] {
			delete(v.threads, id)
		}
	}
}

func texts(v *wire.Value) []string {
	out := make([]string, 0, v.Len())
	for i := range v.Len() {
		if s, ok := v.At(i).Text(); ok {
			out = append(out, strings.Clone(s))
		}
	}
	return out
}

// show shows the INBOX: first the cached part, then its first window.
func (s *webSession) show(ctx context.Context) error {
	v := &s.view
	v.mu.Lock()
	v.list = slices.DeleteFunc(v.list[:min(len(v.list), webKept)], func(id string) bool { return id == "" })
	v.at = 0
	v.mu.Unlock()
	if err := s.window(ctx, 0); err != nil {
		return err
	}
	s.later(beside{})
	return nil
}

// scroll shows the next window, which may have been read before, and after the last one the first.
func (s *webSession) scroll(ctx context.Context) error {
	v := &s.view
	v.mu.Lock()
	if v.at += webWindow; v.at >= v.total {
		v.at = 0
	}
	at, there := v.at, v.at < len(v.list) && v.list[v.at] != ""
	v.mu.Unlock()
	if there {
		return nil
	}
	return s.window(ctx, at)
}

// window reads the list from a position on.
func (s *webSession) window(ctx context.Context, from int) error {
	r := client.NewRequest(webUsing...)
	q := r.Call("Email/query", func(w *wire.Writer) {
		w.Text("accountId", s.account)
		w.Object("filter", func(f *wire.Writer) { f.Text("inMailbox", s.inbox) })
		w.Raw("sort", `[{"property":"receivedAt","isAscending":false}]`)
		w.Bool("collapseThreads", true)
		w.Uint("position", uint64(from))
		w.Uint("limit", webWindow)
		w.Bool("calculateTotal", true)
	})
	g := r.GetReferred("Email", s.account, q.At("/ids"), webRowProperties...)
	t := r.GetReferred("Thread", s.account, g.At("/list/*/threadId"))
	out, err := s.c.Do(ctx, r)
	if err != nil {
		return err
	}
	found, err := out.Get(q)
	if err != nil {
		return err
	}
	rows, err := out.Get(g)
	if err != nil {
		return err
	}
	threads, err := out.Get(t)
	if err != nil {
		return err
	}
	ids := texts(found.Get("ids"))
	total, ok := found.Get("total").Int()
	switch {
	case rows.Get("list").Len() != len(ids):
		return &Refusal{"a list without all of its messages"}
	case !ok || len(ids) > webWindow || total < int64(len(ids)):
		return fmt.Errorf("%w: a list of %d, of %d in all", client.ErrProtocol, len(ids), total)
	}
	v := &s.view
	v.mu.Lock()
	defer v.mu.Unlock()
	v.total = int(total)
	v.list = v.list[:min(len(v.list), v.total)]
	for len(v.list) < min(v.total, from+len(ids)) {
		v.list = append(v.list, "")
	}
	copy(v.list[from:], ids)
	v.take(s.inbox, rows, threads)
	for _, id := range ids {
		if len(v.threads[v.rows[id].thread]) == 0 {
			return &Refusal{"a message without its conversation"}
		}
	}
	return nil
}

// catchUp does background work, and loads the bodies of the newest messages; asked reports whether it sent any request.
func (s *webSession) catchUp(ctx context.Context, b beside) (asked bool, err error) {
	if b.ask {
		s.mu.Lock()
		s.asking = true
		s.mu.Unlock()
		err := s.update(ctx)
		s.mu.Lock()
		s.asking = false
		s.mu.Unlock()
		if err != nil {
			return true, err
		}
	}
	if b.list {
		if err := s.window(ctx, 0); err != nil {
			return true, err
		}
	}
	v := &s.view
	members := v.members()
	for some := range slices.Chunk(members, webMembers) {
		if err := s.missing(ctx, some); err != nil {
			return true, err
		}
	}
	v.mu.Lock()
	var missing []string
	for _, id := range v.list[:min(len(v.list), webKeptBodies)] {
		if _, kept := v.bodies[id]; id != "" && !kept && v.rows[id].size < webKeptSize {
			missing = append(missing, id)
		}
	}
	v.mu.Unlock()
	for some := range slices.Chunk(missing, webBodies) {
		if _, err := s.bodies(ctx, some, nil); err != nil {
			return true, err
		}
	}
	return b != beside{} || len(members) > 0 || len(missing) > 0, nil
}

// members returns the Emails that belong to listed conversations, are in other folders, and were not read yet.
func (v *view) members() (list []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, id := range v.list {
		for _, k := range v.thread(id) {
			if _, known := v.rows[k]; !known && k != "" {
				list = append(list, k)
			}
		}
	}
	return list
}

// rows requests Emails as lists show them, and their threads.
func (s *webSession) rows(ctx context.Context, ids []string) error {
	r := client.NewRequest(webUsing...)
	g := r.Get("Email", s.account, ids, webRowProperties...)
	t := r.GetReferred("Thread", s.account, g.At("/list/*/threadId"))
	out, err := s.c.Do(ctx, r)
	if err != nil {
		return err
	}
	rows, err := out.Get(g)
	if err != nil {
		return err
	}
	threads, err := out.Get(t)
	if err != nil {
		return err
	}
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	s.view.take(s.inbox, rows, threads)
	return nil
}

// bodies requests full Emails. Each listed one must come with its text, except those of gone, which may have been
// deleted meanwhile.
func (s *webSession) bodies(ctx context.Context, ids, gone []string) (int, error) {
	v, err := s.call(ctx, "Email/get", func(w *wire.Writer) {
		w.Text("accountId", s.account)
		w.Strings("ids", ids...)
		w.Strings("properties", webMessageProperties...)
		w.Bool("fetchHTMLBodyValues", true)
		w.Bool("fetchTextBodyValues", true)
		w.Uint("maxBodyValueBytes", webBodyValue)
	})
	if err != nil {
		return 0, err
	}
	view := &s.view
	view.mu.Lock()
	defer view.mu.Unlock()
	list := v.Get("list")
	for i := range list.Len() {
		m := list.At(i)
		if m.Get("bodyValues").Len() == 0 {
			return 0, &Refusal{"a message without its text"}
		}
		id, _ := m.Get("id").Text()
		name := ""
		if all := texts(m.Get("messageId")); len(all) > 0 {
			name, _, _ = strings.Cut(all[0], "@")
		}
		view.bodies[strings.Clone(id)] = strings.Clone(name)
	}
	for _, id := range ids {
		_, kept := view.bodies[id]
		if _, shown := view.rows[id]; !kept && shown && !slices.Contains(gone, id) {
			view.drop(id)
			return 0, &Refusal{"a listed message is not found"}
		}
	}
	return list.Len(), nil
}

// drop removes an Email from the list.
func (v *view) drop(id string) {
	if i := slices.Index(v.list, id); i >= 0 {
		v.list = slices.Delete(v.list, i, i+1)
		v.total--
	}
}
