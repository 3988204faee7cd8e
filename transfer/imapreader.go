package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"doublet/client/imap"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	wire "doublet/wire/imap"
)

const (
	// imapChunk is the number of messages in one FETCH.
	imapChunk = 100
	// imapMark is the number of messages after which the progress in a folder is saved.
	imapMark = 2000
	// imapTries is the maximum number of consecutive connections without progress. imapBad is the maximum number of
	// messages that may be skipped because the connection breaks at them.
	imapTries = 3
	imapBad   = 1000
)

// imapReader imports one person's mail from another server.
type imapReader struct {
	im     *importer
	a      *IMAP
	dial   *imapDialer
	person imapPerson
	login  string
	client *imap.Client
	sink   bodySink

	// careful is the folder in which the connection broke during a fetch. The next messages are fetched one by one, to
	// find the one that breaks the connection. A message that broke it twice is in bad. told holds the reported
	// messages, because a folder is read again after a break.
	careful  string
	broke    map[note.UNID]bool
	bad      map[note.UNID]error
	told     map[note.UNID]bool
	received int
}

func (j *Job) importPerson(ctx context.Context, a *IMAP, dial *imapDialer, p imapPerson) (IMAPPerson, error) {
	out := IMAPPerson{User: p.user}
	who, err := j.directory.Names.PersonOf(ctx, p.user)
	if err != nil {
		return out, err
	}
	p.login = cmp.Or(p.login, who.InternetAddress, who.ShortName)
	out.User = who.Name()
	out.Result, err = j.importInto(ctx, p.user, func(ctx context.Context, im *importer) error {
		im.uses = map[string]string{}
		r := &imapReader{
			im: im, a: a, dial: dial, person: p, login: p.login,
			sink:  bodySink{ctx: ctx, memory: &im.reading, limit: int64(j.mailbox.MessageSize())},
			broke: map[note.UNID]bool{}, bad: map[note.UNID]error{}, told: map[note.UNID]bool{},
		}
		return r.run(ctx)
	})
	return out, err
}

// run imports all folders, and reconnects if the connection breaks.
func (r *imapReader) run(ctx context.Context) error {
	done := map[string]bool{}
	for tries := 0; ; {
		before := len(done) + len(r.bad) + r.received
		err := r.connection(ctx, done)
		if err == nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		var status *imap.StatusError
		if errors.As(err, &status) && status.Status != wire.BYE || errors.Is(err, ErrInvalid) || errors.Is(err,
			mailbox.ErrNoFolder) || r.client == nil && tries == 0 {
			return err // the server reported the error; the connection did not break
		}
		if tries++; len(done)+len(r.bad)+r.received > before {
			tries = 1
		}
		if tries >= imapTries || len(r.bad) >= imapBad {
			return err
		}
		r.im.Job.progress(Progress{Stage: "connect again", Text: err.Error()})
	}
}

// connection imports as much as possible over one connection.
func (r *imapReader) connection(ctx context.Context, done map[string]bool) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if r.client, err = r.dial.open(ctx, r.a, r.person); err != nil {
		return err
	}
	defer func() { _ = r.client.Close() }()
	defer r.sink.reset() // the connection may have broken in a message
	r.client.SetSink(r.sink.take)
	if len(done) == 0 {
		r.im.out.Skipped = nil
	}
	folders, err := r.remoteFolders(ctx)
	if err != nil {
		return err
	}
	for _, f := range folders {
		if done[f.name] {
			continue
		}
		err := r.folder(ctx, f)
		var status *imap.StatusError
		if errors.As(err, &status) && status.Status == wire.NO {
			err = r.im.failed(ctx, f.name, err) // this folder cannot be read, but the others can
		}
		if err != nil {
			return fmt.Errorf("folder %q: %w", f.name, err)
		}
		done[f.name] = true
	}
	if err := r.client.Logout(); err != nil && ctx.Err() == nil {
		r.im.env.Log.Debug("import imap: logout", "err", err)
	}
	return nil
}

// resume returns where an earlier run stopped in a folder, or the start if its UIDs are others now.
func (r *imapReader) resume(ctx context.Context, name string, validity uint32) (imapProgress, error) {
	at, err := r.progress(ctx, name)
	if err != nil || at.validity == validity {
		return at, err
	}
	if at.validity != 0 {
		r.im.out.Skipped = append(r.im.out.Skipped, name+": it has a new UIDVALIDITY; what came before comes again")
	}
	return imapProgress{note: at.note, validity: validity}, nil
}

// folder imports one folder.
func (r *imapReader) folder(ctx context.Context, f remoteFolder) error {
	sel, err := r.client.Select(&wire.Select{Mailbox: f.name}, true)
	if err != nil {
		return err
	}
	at, err := r.resume(ctx, f.name, sel.UIDValidity)
	if err != nil {
		return err
	}
	fresh, err := r.newUIDs(at.last, sel)
	if err != nil {
		return err
	}
	if r.a.Check {
		line := fmt.Sprintf("%s → %s: %d messages, %d new", f.name, f.local, sel.Exists, len(fresh))
		r.im.Job.progress(Progress{Line: line})
		return nil
	}
	create := func(ctx context.Context) error {
		r.im.uses[f.local] = f.use
		_, err := r.im.folder(ctx, f.local)
		return err
	}
	if err := r.im.emit(ctx, &piece{mark: create}); err != nil {
		return err
	}
	if at.last > 0 && sel.Exists > 0 {
		if err := r.flags(ctx, f, at, sel); err != nil {
			return err
		}
	}
	since := 0
	for chunk := range slices.Chunk(fresh, imapChunk) {
		if err := r.chunk(ctx, f, sel.UIDValidity, chunk); err != nil {
			return err
		}
		if since += len(chunk); since >= imapMark {
			since = 0
			// Keep the MODSEQ from before, so that the next run finds flags that change from now on.
			if err := r.mark(ctx, f.name, imapProgress{validity: sel.UIDValidity, last: chunk[len(chunk)-1],
				modseq: at.modseq}); err != nil {
				return err
			}
		}
	}
	last := at.last
	if len(fresh) > 0 {
		last = fresh[len(fresh)-1]
	}
	return r.mark(ctx, f.name, imapProgress{validity: sel.UIDValidity, last: last, modseq: sel.HighestModSeq})
}

// newUIDs returns the UIDs above last, in ascending order.
func (r *imapReader) newUIDs(last uint32, sel *imap.Selected) ([]uint32, error) {
	if sel.Exists == 0 || last == 1<<32-1 || sel.UIDNext != 0 && sel.UIDNext <= last+1 {
		return nil, nil
	}
	key := wire.SearchKey{Op: wire.OpUID, Target: wire.Target{Set: wire.Set{{Start: last + 1, Stop: 0}}}}
	got, err := r.client.Search(&wire.Search{Key: key}, true)
	if err != nil || got == nil {
		return nil, err
	}
	if got.All.Len() > 1<<24 {
		return nil, fmt.Errorf("%w: a folder of %d messages", ErrInvalid, got.All.Len())
	}
	var out []uint32
	got.All.Normalize().Each(func(n uint32) bool {
		if n > last { // n:* always includes the last message
			out = append(out, n)
		}
		return true
	})
	return out, nil
}

func uidSet(uids []uint32) (s wire.Set) {
	for _, u := range uids {
		if n := len(s); n > 0 && s[n-1].Stop+1 == u {
			s[n-1].Stop = u
			continue
		}
		s = append(s, wire.Range{Start: u, Stop: u})
	}
	return s
}

var (
	metaItems = []wire.FetchItem{{Kind: wire.ItemUID}, {Kind: wire.ItemFlags}, {Kind: wire.ItemInternalDate},
		{Kind: wire.ItemSize}}
	bodyItems = []wire.FetchItem{{Kind: wire.ItemUID}, {Kind: wire.ItemBodySection, Peek: true}}
	flagItems = []wire.FetchItem{{Kind: wire.ItemUID}, {Kind: wire.ItemFlags}}
)

// chunk imports some messages of a folder.
func (r *imapReader) chunk(ctx context.Context, f remoteFolder, validity uint32, uids []uint32) error {
	ids := make([]note.UNID, len(uids))
	for i, u := range uids {
		ids[i] = r.identity(f.name, validity, u)
	}
	have, err := r.im.file.Has(ctx, ids)
	if err != nil {
		return err
	}
	pieces := map[uint32]*piece{}
	var ask []uint32
	for i, u := range uids {
		if have[ids[i]] {
			continue // imported by an interrupted run
		}
		ask = append(ask, u)
		pieces[u] = &piece{folder: f.local, where: f.name + " UID " + strconv.FormatUint(uint64(u), 10), unid: ids[i]}
	}
	if len(ask) == 0 {
		return ctx.Err()
	}
	err = r.client.Fetch(&wire.Fetch{Target: wire.Target{Set: uidSet(ask)}, Items: metaItems}, true,
		func(d *wire.FetchData) error {
			if p := pieces[d.UID]; p != nil {
				p.flags, p.date, p.size = lenientFlags(d.Flags), d.InternalDate, d.Size
			}
			return nil
		}, nil)
	if err != nil {
		return err
	}
	ask = slices.DeleteFunc(ask, func(u uint32) bool {
		p := pieces[u]
		p.err = r.bad[p.unid]
		if p.size > r.sink.limit {
			p.err = fmt.Errorf("%w: %d bytes, at most %d", mailbox.ErrTooBig, p.size, r.sink.limit)
		}
		return p.err != nil
	})
	if err := r.bodies(ctx, f.name, ask, pieces); err != nil {
		return err
	}
	if err := r.emitBad(ctx, uids, pieces); err != nil {
		return err
	}
	return ctx.Err()
}

// emitBad emits messages that are too large or cannot be read, each once in all runs over a folder.
func (r *imapReader) emitBad(ctx context.Context, uids []uint32, pieces map[uint32]*piece) error {
	for _, u := range uids {
		if p := pieces[u]; p != nil && p.err != nil && !r.told[p.unid] {
			r.told[p.unid] = true
			if err := r.im.emit(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// flags updates the flags of messages from earlier runs. It fetches only changed flags if the server supports that.
func (r *imapReader) flags(ctx context.Context, f remoteFolder, at imapProgress, sel *imap.Selected) error {
	q := &wire.Fetch{Target: wire.Target{Set: wire.Set{{Start: 1, Stop: at.last}}}, Items: flagItems}
	if at.modseq > 0 && sel.HighestModSeq > 0 {
		if at.modseq >= sel.HighestModSeq {
			return nil
		}
		q.ChangedSince = at.modseq
	}
	var sets []mailbox.FlagSet
	apply := func() error {
		n, err := r.im.file.SetFlags(ctx, sets)
		r.im.out.Flags += uint64(n)
		sets = sets[:0]
		return err
	}
	err := r.client.Fetch(q, true, func(d *wire.FetchData) error {
		if d.UID == 0 || d.UID > at.last {
			return nil
		}
		sets = append(sets, mailbox.FlagSet{UNID: r.identity(f.name, at.validity, d.UID), Flags: lenientFlags(d.Flags)})
		if len(sets) < 1000 {
			return nil
		}
		return apply()
	}, nil)
	return errors.Join(err, apply())
}

// imapProgress is the progress of a remote folder. It is saved in a profile note of the mail file.
type imapProgress struct {
	note     note.UNID
	validity uint32
	last     uint32 // UID
	modseq   uint64 // up to which flags are known; 0 if the server has no MODSEQ
}

func (r *imapReader) progressNote(folder string) note.UNID {
	return note.DeriveUNID([]byte("import imap progress"), []byte(r.dial.host), []byte(r.login), []byte(folder))
}

// progress reads the progress of earlier runs.
func (r *imapReader) progress(ctx context.Context, folder string) (p imapProgress, err error) {
	p.note = r.progressNote(folder)
	err = r.im.store.Read(ctx, note.System, r.im.db, func(rd *store.Reader) error {
		id, err := rd.Find(p.note)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		c, err := rd.Content(id)
		if err != nil {
			return err
		}
		it := c.Content.Items
		p.validity, p.last = uint32(it.Get("UIDValidity").AsInt()), uint32(it.Get("LastUID").AsInt())
		p.modseq = uint64(max(it.Get("ModSeq").AsInt(), 0))
		return nil
	})
	return p, err
}

// mark saves the progress of a folder after everything before it is committed.
func (r *imapReader) mark(ctx context.Context, folder string, p imapProgress) error {
	u := r.progressNote(folder)
	items := note.MakeItems(
		note.Item{Name: "Form", Value: note.Text("ImportProgress")},
		note.Item{Name: "Source", Value: note.Text(r.login + " at " + r.dial.host)},
		note.Item{Name: "Folder", Value: note.Text(folder)},
		note.Item{Name: "UIDValidity", Value: note.Int(int64(p.validity))},
		note.Item{Name: "LastUID", Value: note.Int(int64(p.last))},
		note.Item{Name: "ModSeq", Value: note.Int(int64(p.modseq))},
	)
	return r.im.emit(ctx, &piece{mark: func(ctx context.Context) error {
		return r.im.store.Update(ctx, note.System, []note.DatabaseID{r.im.db}, func(tx *store.Tx) error {
			w, err := tx.Database(r.im.db)
			if err != nil {
				return err
			}
			return w.Put(u, note.Profile, note.Content{Items: items})
		})
	}})
}
