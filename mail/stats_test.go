package mail

import (
	"fmt"
	"strings"
	"testing"
)

// TestDeliveredFigures checks the minimum, average and maximum of sizes and hops, of messages that are delivered at
// once and of those that pass mail.box.
func TestDeliveredFigures(t *testing.T) {
	t.Parallel()
	w := open(t, Options{MaxLocal: 2})
	w.shows("Mail.MinimumSizeDelivered = 0", "Mail.MaximumServerHops = 0", "Mail.MinimumServerHops = 0",
		"Mail.AverageServerHops = 0", "Mail.MinimumDeliverTime = 0", "Mail.MaximumDeliverTime = 0")
	alice := w.person("alice")
	w.person("bob")
	w.person("carol")
	w.deposit(w.from("eve@far.example", "alice@example.com")) // one Received field: this server's
	far := w.from("eve@far.example", "alice@example.com", "bob@example.com", "carol@example.com")
	far.Message = []byte(strings.Repeat("Received: from a by b\r\n", 4) + plain)
	w.deposit(far)
	w.shows("Mail.Delivered = 1", "Mail.MaximumServerHops = 1", "Mail.AverageServerHops = 1")
	w.route()
	w.shows("Mail.Delivered = 4", "Mail.MinimumServerHops = 1", "Mail.MaximumServerHops = 5",
		"Mail.AverageServerHops = 4")
	small, large := 1<<30, 0
	for _, raw := range w.has(alice, 2) {
		small, large = min(small, len(raw)), max(large, len(raw))
	}
	for name, size := range map[string]int{"Minimum": small, "Maximum": large} {
		w.shows(fmt.Sprintf("Mail.%sSizeDelivered = %.6g", name, float64(size)/1024))
	}
	huge := w.from("eve@far.example", "bob@example.com")
	huge.Message = []byte("Subject: nul\r\n\r\n\x00" + strings.Repeat("x", large))
	if _, err := w.Deposits.Deposit(bg, huge, nil); err == nil {
		t.Error("a message with a NUL was accepted")
	}
	w.shows(fmt.Sprintf("Mail.MaximumSizeDelivered = %.6g", float64(large)/1024), "Mail.Delivered = 4")
}
