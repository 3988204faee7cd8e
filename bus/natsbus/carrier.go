package natsbus

import (
	"fmt"
	"strconv"
	"strings"

	"doublet/bus"

	"github.com/nats-io/nats.go"
)

// carrier sends and receives messages over NATS. Each server has its own subjects:
//
//	doublet.CLUSTER.SERVER.m          a message
//	doublet.CLUSTER.SERVER.n.NUMBER   NATS reports that the message NUMBER had no receiver
type carrier struct {
	conn *nats.Conn
	base string // "doublet.CLUSTER."
	self string
}

const noResponders = "503"

func newCarrier(conn *nats.Conn, cluster string, self bus.ServerID) *carrier {
	base := "doublet." + cluster + "."
	return &carrier{conn: conn, base: base, self: base + self.String()}
}

// listen subscribes to this server's subjects. It calls heard with each message, which heard then owns, and unheard
// with the link and number of each message that had no receiver.
func (c *carrier) listen(heard func(m []byte), unheard func(link linkID, number uint64)) error {
	sub, err := c.conn.Subscribe(c.self+".>", func(m *nats.Msg) {
		tail := m.Subject[len(c.self)+1:]
		if tail == "m" {
			heard(m.Data)
			return
		}
		word, ok := strings.CutPrefix(tail, "n.")
		if link, number, err := parseNumber(word); ok && err == nil && len(m.Data) == 0 &&
			m.Header.Get("Status") == noResponders {
			unheard(link, number)
		}
	})
	if err != nil {
		return err
	}
	// The limits hold everything that mates may have in flight; only foreign messages can exceed them.
	if err := sub.SetPendingLimits(maxPending, maxPendingBytes); err != nil || !c.conn.IsConnected() {
		return err
	}
	return c.conn.Flush()
}

const (
	maxPending      = 1 << 16
	maxPendingBytes = 64 << 20
)

// send sends a message. The caller may reuse m at once. With h, NATS reports a message without a receiver.
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

// formatNumber and parseNumber encode link and number as one token of a subject.
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
