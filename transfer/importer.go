package transfer

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/wire/mime"
)

// Limits of imports, above all the size of one commit.
const (
	importAhead   = 512
	importBatch   = 100
	importCommit  = 4 << 20
	importErrors  = 100
	progressEvery = 1000
)

// piece is one message that is being imported.
type piece struct {
	folder string
	where  string // file and number, for error messages
	raw    []byte
	flags  mailbox.Flags
	date   time.Time
	// unid, if not zero, is the UNID of the note. A message whose note exists already is not imported again.
	unid note.UNID
	size int64 // as reported by the other server
	// mark, if not nil, replaces the message: it is called after everything before it is committed.
	mark func(ctx context.Context) error

	weight   int64
	composed *mailbox.Composed
	err      error
	ready    chan struct{}
}

// importer imports messages into one mail file. It composes many messages concurrently, because that is most of the
// work. It commits them in the order in which they were read, up to 100 at a time. A message holds part of the memory
// budget from its reading until its commit.
type importer struct {
	*Job
	db      note.DatabaseID
	owner   note.UNID
	file    *mailbox.File
	folders map[string]note.ID
	uses    map[string]string // special uses of folders to create; used by the committing goroutine only
	reading reservation       // of the reading goroutine
	work    chan *piece
	ordered chan *piece

	out   Result
	batch []*piece
	bytes int64
}

// importInto imports what read emits into a person's mail file. read returns at the end of the source.
func (j *Job) importInto(ctx context.Context, person string,
	read func(ctx context.Context, im *importer) error) (Result, error) {
	p, err := j.directory.Names.PersonOf(ctx, person)
	if err != nil {
		return Result{}, err
	}
	if err := j.directory.People.EnsureMailFile(ctx, p.ID); err != nil {
		return Result{}, err
	}
	if p, err = j.directory.Names.Person(ctx, p.ID); err != nil {
		return Result{}, err
	}
	who, err := j.directory.Names.WhoOf(ctx, p.ID)
	if err != nil {
		return Result{}, err
	}
	im := &importer{
		Job: j, db: p.MailDatabase, owner: p.ID, file: j.mailbox.File(who, p.MailDatabase),
		folders: map[string]note.ID{},
		reading: j.memory.reader(), work: make(chan *piece, importAhead), ordered: make(chan *piece, importAhead),
	}
	start := j.env.Clock.Now()
	err = im.run(ctx, read)
	im.out.Folders, im.out.Took = len(im.folders), j.env.Clock.Now().Sub(start)
	if err != nil && im.out.Messages > 0 {
		err = fmt.Errorf("after %d messages were imported: %w", im.out.Messages, err)
	}
	return im.out, err
}

func (im *importer) run(ctx context.Context, read func(context.Context, *importer) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var readErr error
	wg.Add(1)
	im.env.Go("import read", func() {
		defer wg.Done()
		readErr = read(ctx, im)
		im.reading.release()
		close(im.work)
		close(im.ordered)
	})
	for range 2 * runtime.GOMAXPROCS(0) {
		wg.Add(1)
		im.env.Go("import compose", func() {
			defer wg.Done()
			for p := range im.work {
				if p.err == nil && p.mark == nil {
					p.composed, p.err = im.mailbox.ComposeImported(ctx, p.raw, im.db)
				}
				p.raw = nil
				close(p.ready)
			}
		})
	}
	err := im.commitAll(ctx)
	cancel()
	im.dropBatch()              // what an error left uncommitted
	for p := range im.ordered { // the rest after an error
		im.drop(p)
	}
	wg.Wait()
	if errors.Is(readErr, context.Canceled) && err != nil {
		readErr = nil
	}
	return errors.Join(err, readErr)
}

// emit passes a message on. A piece with err represents a message that could not be read.
func (im *importer) emit(ctx context.Context, p *piece) error {
	p.ready = make(chan struct{})
	var err error
	if p.weight, err = im.reading.keep(ctx, int64(len(p.raw))); err != nil {
		return err
	}
	// Send to ordered first: its order determines the order of UIDs.
	select {
	case im.ordered <- p:
	case <-ctx.Done():
		im.reading.free(p.weight)
		return ctx.Err()
	}
	im.work <- p
	return nil
}

// drop releases a message that emit passed on, committed or not.
func (im *importer) drop(p *piece) {
	<-p.ready
	if p.composed != nil {
		p.composed.Release()
	}
	im.reading.free(p.weight)
}

// dropBatch releases the messages of the batch and empties it.
func (im *importer) dropBatch() {
	for _, p := range im.batch {
		im.drop(p)
	}
	im.batch, im.bytes = im.batch[:0], 0
}

func (im *importer) fail(where string, err error) {
	im.out.Failed++
	if len(im.out.Errors) < importErrors {
		im.out.Errors = append(im.out.Errors, where+": "+err.Error())
	}
}

func (im *importer) commitAll(ctx context.Context) error {
	for {
		var p *piece
		var ok bool
		select {
		case p, ok = <-im.ordered:
		default:
			// The reader has nothing ready, so commit the current batch now.
			if err := im.commit(ctx); err != nil {
				return err
			}
			p, ok = <-im.ordered
		}
		if !ok {
			return im.commit(ctx)
		}
		<-p.ready
		if p.mark != nil {
			im.drop(p)
			if err := im.commit(ctx); err != nil {
				return err
			}
			if err := p.mark(ctx); err != nil {
				return err
			}
			continue
		}
		if p.err != nil {
			im.fail(p.where, p.err)
			im.drop(p)
			if err := ctx.Err(); err != nil {
				return err
			}
			continue
		}
		im.batch = append(im.batch, p)
		im.bytes += p.weight
		if len(im.batch) >= importBatch || im.bytes >= importCommit {
			if err := im.commit(ctx); err != nil {
				return err
			}
		}
	}
}

// newNote returns the note of a message. A message without a date has that of its header, else the present time.
func (im *importer) newNote(ctx context.Context, p *piece) (store.New, error) {
	folder, err := im.folder(ctx, p.folder)
	if err != nil {
		return store.New{}, err
	}
	date := p.date
	if date.IsZero() && p.composed.Envelope != nil {
		date, _ = mime.ParseDate(p.composed.Envelope.Date)
	}
	if date.IsZero() || date.Unix() < 0 {
		date = im.env.Clock.Now()
	}
	n := p.composed.New(date)
	n.UNID = p.unid
	n.Folders, n.Keywords, n.MarkDeleted = []note.ID{folder}, p.flags.Keywords, p.flags.Deleted
	if p.flags.Seen {
		n.SeenBy = []note.UNID{im.owner}
	}
	return n, nil
}

// commit writes the batch to the mail file, completely or not at all.
func (im *importer) commit(ctx context.Context) error {
	if len(im.batch) == 0 {
		return nil
	}
	defer im.dropBatch()
	batch := im.batch
	news := make([]store.New, len(batch))
	var size uint64
	for i, p := range batch {
		var err error
		if news[i], err = im.newNote(ctx, p); err != nil {
			return err
		}
		size += uint64(p.composed.Size())
	}
	present := 0
	err := im.store.Update(ctx, note.System, []note.DatabaseID{im.db}, func(tx *store.Tx) error {
		w, err := tx.Database(im.db)
		if err != nil {
			return err
		}
		if err := mailbox.CheckQuota(&w.Reader, size); err != nil {
			return err
		}
		present = 0
		for i := range news {
			_, err := w.Create(news[i])
			switch {
			case err == nil:
			case !news[i].UNID.IsZero() && (errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrGrave)):
				present++ // imported before, and perhaps deleted since
			default:
				return fmt.Errorf("%s: %w", batch[i].where, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	before := im.out.Messages
	im.out.Messages += uint64(len(batch) - present)
	im.out.Present += uint64(present)
	im.out.Bytes += size
	if before/progressEvery != im.out.Messages/progressEvery {
		im.progress(Progress{Stage: "import", Done: im.out.Messages, Bytes: im.out.Bytes})
	}
	return nil
}

// folder returns the id of a folder. It creates a missing folder.
func (im *importer) folder(ctx context.Context, name string) (note.ID, error) {
	if id, ok := im.folders[name]; ok {
		return id, nil
	}
	f, err := im.file.Folder(ctx, name)
	if errors.Is(err, mailbox.ErrNoFolder) {
		if f, err = im.file.Create(ctx, name, im.uses[name]); err == nil {
			err = im.file.Subscribe(ctx, name, true) // so that the person sees the folder
		}
	}
	if err != nil {
		return 0, fmt.Errorf("folder %q: %w", name, err)
	}
	im.folders[name] = f.ID
	return f.ID, nil
}
