package measure

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/bench"
	"doublet/bench/drive"
	"doublet/bench/progress"
	"doublet/bench/record"
	"doublet/env"
)

// TestHeader checks that each setting that changes what is measured is in the header of the run file, as a mark or as a
// setting, so that compare can refuse runs that differ in it.
func TestHeader(t *testing.T) {
	t.Parallel()
	header := func(name string, change func(*Options)) record.Header {
		o := &Options{Speed: 1, Window: time.Hour, InitScale: 1, LoginRate: 1200, MaxFailed: 0.01, Timeout: time.Minute,
			FillOver: "imap", Insecure: true}
		change(o)
		j, err := New(env.Real(slog.New(slog.DiscardHandler)), progress.Console{Out: io.Discard}, o, name)
		if err != nil {
			t.Fatal(err)
		}
		j.worlds = []*drive.World{{}}
		return j.header("id", time.Now())
	}
	none := func(*Options) {}
	same := header("n8mail", none)
	for name, change := range map[string]func(*Options){
		"window": func(o *Options) { o.Window *= 2 }, "short window": func(o *Options) { o.Window /= 2 },
		"sign-ins": func(o *Options) { o.LoginRate = 60 }, "limit of failures": func(o *Options) { o.MaxFailed = 1 },
		"time-out": func(o *Options) { o.Timeout = time.Second }, "filling": func(o *Options) { o.FillOver = "lmtp" },
		"certificates": func(o *Options) { o.Insecure = false }, "keep": func(o *Options) { o.Keep = true },
		"cache": func(o *Options) { o.Cold = true },
	} {
		h := header("n8mail", change)
		if maps.Equal(h.Settings, same.Settings) && slices.Equal(h.Marks, same.Marks) {
			t.Errorf("%s: it is not in the header", name)
		}
	}
	if h := header("r6mail", func(o *Options) { o.Set = []string{"adds=12"} }); !slices.Contains(h.Marks, "adds = 12") {
		t.Errorf("--set is no mark: %q", h.Marks)
	}
	h := header("r6mail", func(o *Options) { o.Guests, o.Quota = 4, 0.5 })
	if h.Target.Guests != 4 || h.Target.Quota != 0.5 ||
		!slices.Contains(h.Marks, "control groups with a quota of processors stand in for guests: 4 with 0.5 each") {
		t.Errorf("guests are not marked: %+v %q", h.Target, h.Marks)
	}
	if h := header("n7mail", none); h.Workload.Unknown == "" || !slices.Contains(h.Marks, h.Workload.Unknown) {
		t.Errorf("what nobody knows of n7mail is no mark: %q", h.Marks)
	}
	// The largest message is 10 MB of noise in base64, which shrinks to three quarters; text shrinks to less than half.
	if m := same.Messages; len(m) != 6 || m[0].Compressed > 0.7 || m[5].Whole < 13_000_000 || m[5].Compressed < 0.72 ||
		m[2].Body != 50_000 || m[2].Whole < 50_000 || m[2].Whole > 51_000 {
		t.Errorf("messages %+v", m)
	}
	if same.Workload.Limit != record.Duration(time.Second) {
		t.Errorf("limit %v", same.Workload.Limit)
	}
}

// TestSurvey checks that a run over JMAP is refused if the server lacks what the workload needs, before anybody signs
// in, and marked if it has no calendars. Only the user ann exists.
func TestSurvey(t *testing.T) {
	t.Parallel()
	const mail, submission, calendars = `"urn:ietf:params:jmap:mail":"a"`, `"urn:ietf:params:jmap:submission":"a"`,
		`"urn:ietf:params:jmap:calendars":"a"`
	for _, c := range []struct {
		user, workload, over string
		has                  []string
		refused, mark        string
	}{
		{"ann", "n8mail", "jmap", []string{mail, submission, calendars}, "", ""},
		{"ann", "n8mail", "jmap", []string{mail, submission}, "", "no JMAP Calendars"},
		{"ann", "n8mail", "jmap", []string{mail}, "no JMAP Submission (urn:ietf:params:jmap:submission)", ""},
		{"ann", "idle", "jmap", []string{mail}, "", "no event stream"},
		{"ann", "idle", "jmap", []string{submission}, "no JMAP Mail (urn:ietf:params:jmap:mail) for ann", ""},
		{"bob", "n8mail", "jmap", []string{mail}, "", ""},
		{"ann", "n8mail", "imap", nil, "", ""},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if name, _, _ := r.BasicAuth(); name != "ann" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			if r.URL.Path == "/ev" {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			all := strings.Join(c.has, ",")
			fmt.Fprintf(w, `{"capabilities":{"urn:ietf:params:jmap:core":{},%s},"accounts":{},"primaryAccounts":{%s},`+
				`"username":"ann","state":"s","apiUrl":"/api","uploadUrl":"/up/{accountId}",`+
				`"downloadUrl":"/down/{blobId}","eventSourceUrl":"/ev"}`, all, all)
		}))
		t.Cleanup(server.Close)
		j, err := New(env.Real(slog.New(slog.DiscardHandler)), progress.Console{Out: io.Discard},
			&Options{Over: c.over}, c.workload)
		if err != nil {
			t.Fatal(err)
		}
		j.users = []drive.User{{Name: c.user, Password: "x"}}
		j.worlds = []*drive.World{j.World(j.users, map[string]string{"jmap": server.Listener.Addr().String()})}
		var h record.Header
		err = j.survey(t.Context(), &h)
		var usage *bench.UsageError
		if errors.As(err, &usage) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s of %s over %s, %q: %v", c.workload, c.user, c.over, c.has, err)
		}
		if got := strings.Join(h.Marks, ""); (got != "") != (c.mark != "") || !strings.Contains(got, c.mark) {
			t.Errorf("%s of %s over %s, %q: marks %q", c.workload, c.user, c.over, c.has, got)
		}
	}
}

// TestSharedMark checks which runs are marked, because their driver and their server use the same processors.
func TestSharedMark(t *testing.T) {
	t.Parallel()
	here, there := record.Host{Name: "here"}, record.Host{Name: "there"}
	for i, c := range []struct {
		h    record.Header
		want int
	}{
		{record.Header{Server: &here, Driver: here}, 1}, {record.Header{Server: &here, Driver: there}, 0},
		{record.Header{Server: &here, Driver: here, Drivers: []record.Host{there}}, 0},
		{record.Header{Server: &here, Driver: there, Drivers: []record.Host{there, here}}, 1},
		{record.Header{Driver: here}, 0},
	} {
		if markShared(&c.h); len(c.h.Marks) != c.want {
			t.Errorf("case %d: %q", i, c.h.Marks)
		}
	}
}

// TestLedgerThreshold refuses a threshold on lost mail before anything begins if no ledger is kept.
func TestLedgerThreshold(t *testing.T) {
	t.Parallel()
	o := &Options{Speed: 1, Window: time.Hour, InitScale: 1, LoginRate: 1200, FailIf: []string{"errors>0", "lost>0"}}
	j, err := New(env.Real(slog.New(slog.DiscardHandler)), progress.Console{Out: io.Discard}, o, "n8mail")
	if err != nil {
		t.Fatal(err)
	}
	d := &fake{}
	_, err = j.Run(t.Context(), &Server{Doublet: d}, []int{1}, nil)
	var usage *bench.UsageError
	if !errors.As(err, &usage) || !strings.Contains(err.Error(), "--fail-if lost>0 needs --ledger") || d.added != nil {
		t.Errorf("%v, people %q", err, d.added)
	}
}
