package natsbus

import (
	"fmt"
	"strconv"
	"strings"

	"doublet/bus"

	"github.com/nats-io/nats.go"
)

// carrier is the connection to NATS, here or elsewhere. A server's messages come under one subject, its name
// in one cluster:
//
//	doublet.CLUSTER.SERVER.m          a message
//	doublet.CLUSTER.SERVER.n.NUMBER   NATS says that nobody heard the message of that number
type carrier struct {
	conn *nats.Conn
	base string // doublet.CLUSTER.
	self string
}

const noResponders = "503"

func newCarrier(conn *nats.Conn, cluster string, self bus.ServerID) *carrier {
	base := "doublet." + cluster + "."
	return &carrier{conn: conn, base: base, self: base + self.String()}
}

// listen hears what comes for this server. heard gets a message, which is its own from then on;
// unheard the link and number of one that nobody took.
func (c *carrier) listen(heard func(m []byte), unheard func(link linkID, number uint64)) error {
	sub, err := c.conn.Subscribe(c.self+".>", func(m *nats.Msg) {
		tail := m.Subject[len(c.self)+1:]
		if tail == "m" {
			heard(m.Data)
			return
		}
		word, ok := strings.CutPrefix(tail, "n.")
		if link, number, err := parseNumber(word); ok && err == nil && len(m.Data) == 0 && m.Header.Get("Status") == noResponders {
			unheard(link, number)
		}
	})
	if err != nil {
		return err
	}
	// What mates may have in flight fits; more would be somebody else's.
	if err := sub.SetPendingLimits(maxPending, maxPendingBytes); err != nil || !c.conn.IsConnected() {
		return err
	}
	return c.conn.Flush()
}

const (
	maxPending      = 1 << 16
	maxPendingBytes = 64 << 20
)

// send sends a message; what it is built in may be used again at once. With h, NATS tells if nobody hears it.
func (c *carrier) send(to bus.ServerID, m []byte, h *messageHead) error {
	subject := c.base + to.String() + ".m"
	var err error
	if h != nil {
		err = c.conn.PublishRequest(subject, c.self+".n."+formatNumber(h.link, h.number), m)
	} else {
		err = c.conn.Publish(subject, m)
	}
	if err != nil {
		return fmt.Errorf("%w: NATS: %w", bus.ErrNoServer, err)
	}
	return nil
}

// formatNumber and parseNumber put link and number into a word of a subject.
func formatNumber(link linkID, number uint64) string {
	return fmt.Sprintf("%x-%x", link[:], number)
}

func parseNumber(word string) (link linkID, number uint64, err error) {
	l, n, ok := strings.Cut(word, "-")
	raw, err := strconv.ParseUint(l, 16, 64)
	if err != nil || !ok || len(l) != 16 {
		return link, 0, errMessage
	}
	for i := range link {
		link[i] = byte(raw >> (56 - 8*i))
	}
	number, err = strconv.ParseUint(n, 16, 64)
	return link, number, err
}
