package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"doublet/cluster"
	"doublet/directory"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
	"doublet/wire/mime"
)

// box is a mail file or a queue.
type box struct {
	id     note.DatabaseID
	title  string
	ack    layout.Ack
	queue  bool
	serial int
	// widowed means that one of two homes died before it could report to the other that it had been a home.
	widowed bool
}

// promise records the acknowledgement of one change.
type promise struct {
	at *server
	// acked means that the change was acknowledged, confirmed that a mate had it then. lost means that the only disk
	// with it is gone.
	acked, confirmed, lost bool
	tick                   int
}

// holds reports whether the change must survive.
func (p *promise) holds() bool { return p.acked && !p.lost }

// mail is one message.
type mail struct {
	box  *box
	unid note.UNID
	promise
	// keywords holds the promise of each keyword that was set.
	keywords map[string]*promise
	// expunge is the first attempt to expunge the message. moved means that the message was copied or moved afterwards,
	// or at another home that may not have known of the expunge; then it survives. movers are the servers that copied
	// or moved it.
	expunge *promise
	moved   bool
	movers  map[*server]bool
	// tried means that a delivery was attempted, so the message may exist.
	tried bool
}

// edit is a document created in the directory.
type edit struct {
	id note.UNID
	promise
}

// queued is a queue entry. Its delivery into a box creates a message with a known UNID.
type queued struct {
	queue *box
	unid  note.UNID
	to    *mail
	promise
	routed bool
}

// users change the mail files and the directory: deliveries, flags, moves, expunges, folders and opens.
type users struct {
	*world
	mails   []*mail
	byEmail map[string]*mail
	queued  []*queued
	edits   []*edit
}

// furnish creates the databases.
func (u *users) furnish() {
	for i := range u.between(2, 5) {
		ack := []layout.Ack{layout.AckLocal, layout.AckCluster, layout.AckCluster, layout.AckStrict}[u.rng.IntN(4)]
		s := pick(u.world, u.servers)
		id, err := s.mail.Make(u.ctx, note.UNID{byte(i + 1)}, fmt.Sprint("box", i+1), 0, 0)
		u.must(err, "make a mail file")
		u.must(s.store.SetInfo(note.System, id, func(i *layout.Info) { i.Ack = ack }), "mode")
		u.boxes = append(u.boxes, &box{id: id, title: fmt.Sprint("box", i+1), ack: ack})
	}
	s := pick(u.world, u.servers)
	id, err := s.store.CreateDatabase(note.System, store.Create{Title: "queue", Kind: "queue", Queue: true,
		Ack: layout.AckCluster})
	u.must(err, "make a queue")
	u.boxes = append(u.boxes, &box{id: id, title: "queue", ack: layout.AckCluster, queue: true})
	u.stats.Databases = len(u.boxes)
	u.wait("the databases get their replicas", 120, func() string {
		for _, b := range u.boxes {
			n := 0
			for _, s := range u.servers {
				if _, err := s.store.Info(b.id); err == nil && s.node.Filled(b.id) {
					n++
				}
			}
			if want := min(2, len(u.servers)); n < want {
				return fmt.Sprintf("%s has %d replicas", b.title, n)
			}
		}
		return ""
	})
	for i := range u.between(2, 4) {
		u.clients = append(u.clients, &client{w: u.world, name: fmt.Sprint("client", i+1), box: u.mailBox()})
	}
}

func (w *world) mailBox() *box {
	for {
		if b := pick(w, w.boxes); !b.queue {
			return b
		}
	}
}

// holders lists the running servers with a replica of a database in service.
func (w *world) holders(b *box) []*server {
	var out []*server
	for _, s := range w.up() {
		if i, err := s.store.Info(b.id); err == nil && i.State == layout.InService {
			out = append(out, s)
		}
	}
	return out
}

// homes lists the servers that are primary (home) of a database. After a split there may be several for a while.
func (w *world) homes(b *box) []*server {
	return slices.DeleteFunc(w.holders(b), func(s *server) bool { return !s.store.Leads(b.id) })
}

// work performs up to three random operations of users and mail servers.
func (u *users) work() {
	for range u.between(0, 3) {
		switch n := u.rng.IntN(100); {
		case n < 34:
			u.deliver()
		case n < 46:
			u.flag()
		case n < 54:
			u.move()
		case n < 64:
			u.expunge()
		case n < 69:
			u.editDirectory()
		case n < 73:
			u.folder()
		case n < 80:
			u.enqueue()
		case n < 87:
			u.route()
		case n < 92:
			u.openSome()
		default:
			pick(u.world, u.clients).sync()
		}
	}
}

// try runs a change on a server and records what was promised.
func (u *users) try(s *server, mode layout.Ack, p *promise, fn func() error) error {
	before := s.degraded()
	err := fn()
	if s.node == nil {
		return errors.New("server is gone")
	}
	if err == nil && !p.acked {
		*p = promise{at: s, acked: true, tick: u.tick, confirmed: mode != layout.AckLocal && s.degraded() == before}
		if s.degraded() > before {
			u.stats.Degraded++
		}
	}
	return err
}

// message returns message n. Its bytes depend only on n.
func (u *users) message(n int) []byte {
	raw := []byte(fmt.Sprintf("From: a@example.com\r\nSubject: message %d\r\n", n))
	if n%7 != 0 {
		return append(raw, "\r\nHello\r\n"...)
	}
	// A message with a large part. There are three different parts, so messages share them.
	part := make([]byte, 40<<10)
	for i := range part {
		part[i] = byte(i * (1 + n/7%3))
	}
	raw = append(raw, "Content-Transfer-Encoding: base64\r\n\r\n"...)
	return mime.AppendBase64Lines(raw, part, 76, true)
}

func (u *users) newMail(b *box) *mail {
	n := len(u.mails) + 1
	m := &mail{box: b, unid: note.DeriveUNID([]byte("mail"), binary.BigEndian.AppendUint64(nil, uint64(n))),
		keywords: map[string]*promise{}, movers: map[*server]bool{}}
	b.serial = n
	u.mails = append(u.mails, m)
	u.byEmail["m"+m.unid.String()] = m
	return m
}

// put writes a message to a mail file within an update.
func (u *users) put(wr *store.Writer, m *mail, msg *store.Message) error {
	inbox, err := wr.FolderNamed(mailbox.Inbox)
	if err != nil {
		return err
	}
	_, err = wr.Create(store.New{
		UNID: m.unid, Message: msg, Date: 1_700_000_000, Folders: []note.ID{inbox.Note},
		Content: note.Content{Items: note.MakeItems(note.Item{Name: "Subject", Value: note.Text(m.unid.String())})},
	})
	return err
}

func (u *users) prepare(s *server, n int) (*store.Message, error) {
	raw := u.message(n)
	return s.store.Prepare(u.ctx, raw, mime.SplitLeaves(raw, mime.Parse(raw, mime.DefaultLimits), store.PartSize))
}

// deliver delivers a message at any server that holds the mail file. After an error it may retry at another server.
func (u *users) deliver() {
	b := u.mailBox()
	m := u.newMail(b)
	n := len(u.mails)
	for {
		list := u.holders(b)
		if len(list) == 0 {
			return
		}
		s := pick(u.world, list)
		err := u.deliverAt(s, m, n)
		if err == nil {
			u.stats.Delivered++
			u.logf("mail %d %.6s to %s at %s: confirmed %v", n, m.unid, b.title, s.name, m.confirmed)
			return
		}
		u.logf("mail %d %.6s to %s at %s: %v", n, m.unid, b.title, s.name, err)
		if u.chance(50) {
			return
		}
	}
}

// deliverAt delivers message number n at a server.
func (u *users) deliverAt(s *server, m *mail, n int) error {
	m.tried = true
	return u.try(s, m.box.ack, &m.promise, func() error {
		msg, err := u.prepare(s, n)
		if err != nil {
			return err
		}
		defer msg.Release()
		return u.update(s, m.box, func(wr *store.Writer) error { return u.put(wr, m, msg) })
	})
}

// some picks one of the last messages that a server holds, and returns its folders.
func (u *users) some(s *server, b *box) (m *mail, folders []note.ID, id note.ID) {
	var list []*mail
	for _, x := range u.mails {
		if x.box == b {
			list = append(list, x)
		}
	}
	if len(list) == 0 {
		return nil, nil, 0
	}
	m = pick(u.world, list[max(0, len(list)-20):])
	err := s.store.Read(u.ctx, note.System, b.id, func(r *store.Reader) error {
		var err error
		if id, err = r.Find(m.unid); err != nil {
			return err
		}
		n, err := r.Note(id)
		if err != nil {
			return err
		}
		for _, x := range n.Members {
			folders = append(folders, x.Folder)
		}
		return nil
	})
	if err != nil || len(folders) == 0 {
		return nil, nil, 0
	}
	return m, folders, id
}

// atHome applies a change to a random message at a home of its mail file.
func (u *users) atHome(fn func(s *server, m *mail, folders []note.ID, id note.ID)) {
	b := u.mailBox()
	homes := u.homes(b)
	if len(homes) == 0 {
		return
	}
	s := pick(u.world, homes)
	if m, folders, id := u.some(s, b); m != nil {
		fn(s, m, folders, id)
	}
}

func (u *users) update(s *server, b *box, fn func(*store.Writer) error) error {
	return s.store.Update(u.ctx, note.System, []note.DatabaseID{b.id}, func(tx *store.Tx) error {
		wr, err := tx.Database(b.id)
		if err != nil {
			return err
		}
		return fn(wr)
	})
}

func (u *users) flag() {
	u.atHome(func(s *server, m *mail, _ []note.ID, id note.ID) {
		p := &promise{}
		word := fmt.Sprint("k", u.tick, "-", u.rng.IntN(1000))
		m.keywords[word] = p
		err := u.try(s, m.box.ack, p, func() error {
			return u.update(s, m.box, func(wr *store.Writer) error { return wr.SetKeyword(id, word, true) })
		})
		u.stats.Flags++
		u.logf("flag %s on %.6s of %s at %s: %v, confirmed %v", word, m.unid, m.box.title, s.name, err, p.confirmed)
	})
}

func (u *users) move() {
	u.atHome(func(s *server, m *mail, folders []note.ID, id note.ID) {
		if m.expunge != nil {
			m.moved = true
		}
		m.movers[s] = true
		copying := u.chance(30)
		err := u.update(s, m.box, func(wr *store.Writer) error {
			var to []note.ID
			for _, f := range wr.Folders() {
				if !slices.Contains(folders, f.Note) {
					to = append(to, f.Note)
				}
			}
			if len(to) == 0 {
				return store.ErrNotFound
			}
			if _, err := wr.AddTo(id, pick(u.world, to)); err != nil || copying {
				return err
			}
			return wr.RemoveFrom(id, folders[0])
		})
		u.stats.Moves++
		u.logf("move %.6s of %s at %s: %v", m.unid, m.box.title, s.name, err)
	})
}

func (u *users) expunge() {
	u.atHome(func(s *server, m *mail, folders []note.ID, id note.ID) {
		p := &promise{}
		if m.expunge == nil {
			m.expunge = p
		}
		for at := range m.movers {
			m.moved = m.moved || at != s
		}
		err := u.try(s, m.box.ack, p, func() error {
			return u.update(s, m.box, func(wr *store.Writer) error {
				var errs []error
				for _, f := range folders {
					errs = append(errs, wr.RemoveFrom(id, f))
				}
				return errors.Join(errs...)
			})
		})
		if p.acked && !m.expunge.acked {
			m.expunge = p
		}
		u.stats.Expunges++
		u.logf("expunge %.6s of %s at %s: %v, confirmed %v", m.unid, m.box.title, s.name, err, p.confirmed)
	})
}

// folder creates, renames or deletes a folder, usually at a home.
func (u *users) folder() {
	if u.NoFolders {
		return
	}
	b := u.mailBox()
	list := u.homes(b)
	if u.chance(15) {
		list = u.holders(b)
	}
	if len(list) == 0 {
		return
	}
	s := pick(u.world, list)
	name := fmt.Sprint("F", u.rng.IntN(6))
	err := u.update(s, b, func(wr *store.Writer) error {
		f, err := wr.FolderNamed(name)
		if errors.Is(err, store.ErrNotFound) {
			_, err = wr.CreateFolder(name, "")
			return err
		}
		if err != nil {
			return err
		}
		if u.chance(50) {
			return wr.RenameFolder(f.Note, fmt.Sprint("G", u.rng.IntN(6)))
		}
		if f.Total > 0 {
			return nil
		}
		return wr.DeleteFolder(f.Note)
	})
	u.logf("folder %s of %s at %s: %v", name, b.title, s.name, err)
}

// editDirectory creates a group at any server.
func (u *users) editDirectory() {
	list := slices.DeleteFunc(u.up(), func(s *server) bool { return s.dir == nil })
	if len(list) == 0 {
		return
	}
	s := pick(u.world, list)
	x := &edit{}
	err := u.try(s, layout.AckLocal, &x.promise, func() error {
		g, err := s.dir.Groups.Add(u.ctx, note.System,
			directory.GroupFields{Name: fmt.Sprint("group ", u.tick, " ", u.rng.IntN(1<<30))})
		x.id = g.ID
		return err
	})
	if err == nil {
		u.edits = append(u.edits, x)
		u.stats.Edits++
	}
	u.logf("group %.6s at %s: %v", x.id, s.name, err)
}

func (u *users) theQueue() *box { return u.boxes[len(u.boxes)-1] }

// enqueue accepts a message for later delivery.
func (u *users) enqueue() {
	b := u.theQueue()
	homes := u.homes(b)
	if len(homes) == 0 {
		return
	}
	s := pick(u.world, homes)
	q := &queued{queue: b, to: u.newMail(u.mailBox())}
	q.unid = note.DeriveUNID([]byte("queued"), q.to.unid[:])
	err := u.try(s, b.ack, &q.promise, func() error {
		return u.update(s, b, func(wr *store.Writer) error {
			_, err := wr.Create(store.New{UNID: q.unid,
				Content: note.Content{Items: note.MakeItems(note.Item{Name: "For",
					Value: note.Text(q.to.unid.String())})}})
			return err
		})
	})
	u.queued = append(u.queued, q)
	u.logf("queue %.6s for %.6s of %s at %s: %v, confirmed %v", q.unid, q.to.unid, q.to.box.title, s.name, err,
		q.confirmed)
}

// route delivers an entry of the queue. The delivery and the removal from the queue are one commit.
func (u *users) route() {
	b := u.theQueue()
	homes := u.homes(b)
	if len(homes) == 0 || len(u.queued) == 0 {
		return
	}
	s := pick(u.world, homes)
	q := pick(u.world, u.queued)
	if _, err := s.store.Info(q.to.box.id); err != nil {
		return // the mail file has no replica here
	}
	err := s.store.Update(u.ctx, note.System, []note.DatabaseID{b.id, q.to.box.id}, func(tx *store.Tx) error {
		qw, err := tx.Database(b.id)
		if err != nil {
			return err
		}
		id, err := qw.Find(q.unid)
		if err != nil {
			return err
		}
		if _, err := qw.Note(id); err != nil {
			return err
		}
		mw, err := tx.Database(q.to.box.id)
		if err != nil {
			return err
		}
		if err := u.put(mw, q.to, nil); err != nil && !errors.Is(err, store.ErrGrave) &&
			!errors.Is(err, store.ErrExists) {
			return err
		}
		return qw.Destroy(id)
	})
	if err == nil {
		// A queue with two homes may deliver twice. A message that was expunged between the two deliveries then exists
		// again.
		q.to.moved = q.to.moved || q.to.expunge != nil
		q.to.movers[s] = true
		q.routed = true
	}
	u.logf("route %.6s to %.6s of %s at %s: %v", q.unid, q.to.unid, q.to.box.title, s.name, err)
}

// openSome opens a mail file at any server, which may move its home.
func (u *users) openSome() {
	list := u.up()
	if len(list) == 0 {
		return
	}
	s := pick(u.world, list)
	b := u.mailBox()
	p, err := s.node.Opens.Open(u.ctx, b.id)
	if err != nil && !errors.Is(err, cluster.ErrNoHome) && !errors.Is(err, store.ErrNotFound) {
		u.logf("open %s at %s: %v", b.title, s.name, err)
		return
	}
	u.logf("open %s at %s: served by %s", b.title, s.name, p.Name)
}
