package sim

import (
	"fmt"
	"time"

	"doublet/directory"
	"doublet/groupware"
	postal "doublet/mail"
	"doublet/mail/queue"
	"doublet/note"
	"doublet/scheduling"
	"doublet/serve/forward"
	"doublet/store/layout"
)

// office is the mail and the groupware of a running server.
type office struct {
	groupware *groupware.Service
	mail      *postal.Service
	sched     *scheduling.Service
	rooms     *scheduling.Reserver
	reconcile *scheduling.Reconciler
	member    bool // its mail.box is that of a member of the cluster
}

// openOffice opens mail, calendars and scheduling over the directory.
func (s *server) openOffice() (err error) {
	inline := *s.env // a world has only one thread
	inline.Go = func(_ string, f func()) { f() }
	o := &office{groupware: groupware.New(s.store, &inline, groupware.Options{})}
	o.mail, err = postal.Open(s.store, &inline, s.dir, s.mail, postal.Options{
		Hostname: s.name + ".example.com", Stats: s.stat, Mates: s.carrier.Deliveries(), KeepTrace: -1, Quiet: true,
		RetryFirst: 2 * time.Second, RetryMax: 10 * time.Second, DelayReport: -1,
		Calendars: scheduling.NewInbox(s.dir, o.groupware, s.stat),
	})
	if err != nil {
		return err
	}
	o.sched = scheduling.New(&inline, s.dir, o.groupware, o.mail, scheduling.Options{
		Hostname: s.name + ".example.com", Stats: s.stat,
	})
	o.rooms, o.reconcile = o.sched.NewReserver(), o.sched.NewReconciler(s.store)
	s.office = o
	forward.ServeMail(s.bus, o.mail)
	return nil
}

// clerk runs the tasks of the office: the router each time, the others now and then.
func (s *server) clerk() {
	o := s.office
	if o == nil || s.node == nil {
		return
	}
	if !o.member {
		if !s.node.Status().Serving {
			return
		}
		if err := o.mail.Join(s.id, s.name, s.node.Opens.Known); err != nil {
			s.w.logf("%s: join: %v", s.name, err)
			return
		}
		o.member = true
	}
	if _, err := o.mail.Router.Route(s.w.ctx); err != nil {
		s.w.logf("%s: router: %v", s.name, err)
	}
	if (s.w.tick+s.number)%20 == 0 {
		if err := o.rooms.Run(s.w.ctx); err != nil {
			s.w.logf("%s: rooms: %v", s.name, err)
		}
		if err := o.reconcile.Run(s.w.ctx); err != nil {
			s.w.logf("%s: reconcile: %v", s.name, err)
		}
	}
}

// citizen is a person or a room.
type citizen struct {
	name string
	id   note.UNID
	box  *box
	room bool
}

func (c *citizen) address() string { return c.name + "@example.com" }

// settle adds people and rooms to the directory, with their mail files, and waits for their replicas.
func (w *world) settle(people, rooms int) (list []*citizen) {
	for i := range people + rooms {
		c := &citizen{name: fmt.Sprint("p", i+1), room: i >= people}
		if c.room {
			c.name = fmt.Sprint("r", i-people+1)
		}
		list = append(list, c)
		w.enrol(c, pick(w, w.servers))
	}
	for _, s := range w.servers {
		id := queue.OwnedID(s.id, 0)
		w.boxes = append(w.boxes, &box{id: id, title: "mail.box of " + s.name, ack: layout.AckCluster, queue: true})
	}
	w.wait("the mail files get their replicas", 120, func() string {
		for _, s := range w.servers {
			if s.office == nil || !s.office.member {
				return s.name + " has no office"
			}
		}
		return w.whole()
	})
	for _, c := range list {
		for _, s := range w.homes(c.box) {
			w.must(s.office.groupware.File(note.System, c.box.id).EnsureCalendar(w.ctx), "make a calendar")
		}
	}
	w.wait("quiet", 120, w.different)
	return list
}

// enrol adds a person or a room to the directory, with a mail file at a server.
func (w *world) enrol(c *citizen, at *server) {
	db, err := at.mail.Make(w.ctx, note.UNID{}, c.name, 0, 0)
	w.must(err, "make a mail file")
	c.box = &box{id: db, title: c.name, ack: layout.AckCluster}
	w.boxes = append(w.boxes, c.box)
	dir := w.servers[0].dir
	if c.room {
		m, err := dir.MailIns.Add(w.ctx, note.System, directory.MailInFields{Name: c.name,
			InternetAddress: c.address(), Database: db,
			Resource: directory.ResourceFields{Kind: directory.ResourceRoom}})
		w.must(err, "add a room")
		c.id = m.ID
	} else {
		p, err := dir.People.Add(w.ctx, note.System, directory.PersonSpec{PersonFields: directory.PersonFields{
			FullName: []string{c.name + " Example"}, ShortName: c.name, MailDatabase: db}})
		w.must(err, "add a person")
		c.id = p.ID
	}
	w.must(at.store.SetInfo(note.System, db, func(i *layout.Info) {
		i.Ack, i.Owner = layout.AckCluster, c.id
		if !c.room {
			i.ACL = i.ACL.With(note.Entry{ID: c.id, Level: note.Manager})
		}
	}), "access list")
}
