package admin

import (
	"context"
	"encoding/json"
	"net/netip"
	"testing"
	"time"
)

// oneBan is the ban of one address.
type oneBan struct {
	address netip.Addr
	list    []Ban
}

func (b oneBan) List() []Ban { return b.list }

func (b oneBan) Remove(a netip.Addr) bool { return a == b.address }

func TestBans(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	banned := netip.MustParseAddr("2001:db8::")
	s.Bans = oneBan{banned, []Ban{{Address: "2001:db8::/64", Failures: 10, Door: "IMAP", Since: time.Unix(0, 0).UTC(),
		Until: time.Unix(3600, 0).UTC()}}}
	if list := must[[]Ban](t, s, "show bans", struct{}{}); len(list) != 1 || list[0].Address != "2001:db8::/64" ||
		list[0].Failures != 10 {
		t.Errorf("%+v", list)
	}
	for args, kind := range map[string]string{
		`{"address":"2001:db8::"}`: "", `{"address":"2001:db8::/64"}`: "", `{"address":"192.0.2.1"}`: "not found",
		`{"address":"somewhere"}`: "usage", `{}`: "usage",
	} {
		if _, err := (Direct{s}).Call(context.Background(), "ban remove", json.RawMessage(args),
			nil); Kind(err) != kind {
			t.Errorf("%s: %v", args, err)
		}
	}
}
