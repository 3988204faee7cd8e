package cluster

import (
	"context"
	"encoding/binary"
	"errors"

	"doublet/bus"
	"doublet/directory"
	"doublet/note"
	"doublet/store"
)

// Found makes the Cluster Database Directory in the store of the first server of a cluster.
func Found(s *store.Store) error {
	_, err := s.CreateDatabase(note.System, store.Create{ID: ID, Title: "Cluster Database Directory", Kind: Kind})
	if errors.Is(err, store.ErrExists) {
		err = nil
	}
	return err
}

// Filled says whether the replica of a database here has been filled once: what it holds belongs together.
func (n *Node) Filled(db note.DatabaseID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.held[db]
	return h != nil && (!h.shared || h.leads || h.pos.Last != 0 && !h.pos.Partial)
}

// begun says that a replica follows and has not been whole yet.
func (h *held) begun() bool {
	return h.shared && !h.leads && (h.pos.Last == 0 || h.pos.Partial && h.pos.Complete == 0)
}

// join asks the members for the documents of the two directories, as long as they are not here: with them
// everything else comes.
func (n *Node) join(ctx context.Context) error {
	lacks := func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, db := range []note.DatabaseID{ID, directory.ID} {
			if _, on := n.catalog.entries[db].on(n.self); !on {
				return true
			}
		}
		return n.held[ID] == nil
	}
	if !lacks() || n.founder(ctx) {
		return nil
	}
	for _, id := range n.Mates() {
		n.mu.Lock()
		alive := n.peers[id] != nil && n.peers[id].alive
		n.mu.Unlock()
		if !alive {
			continue
		}
		answer, err := n.ask(ctx, id, verbJoin, []byte{Version})
		if err != nil {
			continue // the next, or next time
		}
		list, err := readEntries(answer)
		if err != nil {
			return err
		}
		n.mu.Lock()
		for _, e := range list {
			if _, on := n.catalog.entries[e.ID].on(n.self); isDirectory(e.ID) && !on {
				n.catalog.put(e)
				n.stale = true
			}
		}
		n.mu.Unlock()
		if !lacks() {
			break
		}
	}
	return nil
}

// founder says whether the Cluster Database Directory here is the first one, and not one to be filled.
func (n *Node) founder(ctx context.Context) bool {
	shared := false
	err := n.store.Read(ctx, note.System, ID, func(r *store.Reader) error {
		shared = r.Position().Shared
		return nil
	})
	return err == nil && !shared
}

// answerJoin tells a member about the documents of the two directories, once it has a replica of them.
func (n *Node) answerJoin(_ context.Context, from bus.ServerID, _ []byte) ([]byte, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var list []*Entry
	for _, db := range n.catalog.ids() {
		e := n.catalog.entries[db]
		if _, on := e.On(from); on && isDirectory(db) {
			list = append(list, e)
		}
	}
	return appendEntries(list), nil
}

// appendEntries: what a server has to know of databases before it has the Cluster Database Directory.
func appendEntries(list []*Entry) []byte {
	b := binary.AppendUvarint([]byte{Version}, uint64(len(list)))
	for _, e := range list {
		b = binary.BigEndian.AppendUint64(b, uint64(e.ID))
		for _, s := range []string{e.Kind, e.Title} {
			s = s[:min(len(s), maxWord)]
			b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
		}
		b = binary.AppendUvarint(append(b, bits(e.Queue)), uint64(len(e.Replicas)))
		for _, r := range e.Replicas {
			b = append(append(b, r.Server[:]...), r.Slot)
			b = binary.BigEndian.AppendUint64(binary.AppendVarint(b, int64(r.Order)), r.Life)
		}
	}
	return b
}

func readEntries(b []byte) ([]*Entry, error) {
	r, err := begin(b)
	if err != nil {
		return nil, err
	}
	list := make([]*Entry, r.AtMost(maxPositions, 12))
	for i := range list {
		e := &Entry{ID: note.DatabaseID(r.Uint64()), Kind: r.Word(maxWord), Title: r.Word(maxWord)}
		e.Queue = r.Byte()&1 != 0
		for range r.AtMost(note.Slots, 26) {
			x := Replica{Server: r.UNID(), Slot: r.Byte() & (note.Slots - 1), State: Serving}
			x.Order, x.Life = int(r.Varint()), r.Uint64()
			e.Replicas = append(e.Replicas, x)
			e.used |= 1 << x.Slot
		}
		e.sort()
		list[i] = e
	}
	return list, r.end()
}
