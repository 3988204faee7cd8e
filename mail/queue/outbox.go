package queue

import (
	"encoding/binary"

	"doublet/note"
)

// Scheduled messages wait in outboxes. The recipients and everything else about such a message are determined when its
// time comes; until then the sender can recall it. Package mail sends them.
//
// A cluster member has its own outbox, like its mail.box, with a replica at a mate. If the server dies, the mate sends
// the messages that are due. Sending and recalling are updates on the home of the outbox, so that only one of them can
// succeed.
const (
	// OutboxID is the outbox of a standalone server, and OutboxKind its kind. It has no replicas.
	OutboxID   note.DatabaseID = 0x0000000000000B0F
	OutboxKind                 = "outbox"
	// DeferredKind is the kind of the outboxes of cluster members. A program version that does not know this kind keeps
	// replicas but sends nothing.
	DeferredKind = "deferred"
)

// OwnedOutboxID returns the ID of the outbox of a cluster member. It is derived from the server's ID.
func OwnedOutboxID(server note.UNID) note.DatabaseID {
	u := note.DeriveUNID([]byte("outbox"), server[:])
	return note.DatabaseID(binary.BigEndian.Uint64(u[:8]))
}
