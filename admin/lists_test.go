package admin

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"doublet/mail"
	"doublet/note"
	"doublet/wire/smtp"
)

// TestMailVerbs tests forwarding and vacation notices, send rights, and mailing lists.
func TestMailVerbs(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	ctx := context.Background()
	run := func(verb, args string) string {
		t.Helper()
		out, err := s.Run(ctx, note.System, verb, json.RawMessage(args), nil)
		if err != nil {
			return "!" + Kind(err) + " " + err.Error()
		}
		return string(out)
	}
	for _, x := range []struct{ verb, args, want string }{
		{"user add", `{"name":"Ada Lovelace","short":"ada"}`, `"ada@example.com"`},
		{"user add", `{"name":"Bo Peep","short":"bo"}`, `"bo@example.com"`},
		{"group add", `{"name":"Sales","member":["ada"],"address":"sales@example.com"}`, `"Sales"`},
		{"user set", `{"name":"ada","forward":["a@far.example"],"forward_only":true}`,
			`"forward":["a@far.example"],"forward_only":true`},
		{"user set", `{"name":"ada","forward":["nonsense"]}`, "!usage "},
		{"user set", `{"name":"ada","forward":[""]}`, `"ada@example.com"`},
		{"user set",
			`{"name":"ada","vacation":"Back soon.","vacation_from":"2026-12-24","vacation_until":"2026-12-31",` +
				`"vacation_days":3}`, `"vacation":"on from 2026-12-24 until 2026-12-31: Back soon."`},
		{"user set", `{"name":"ada","vacation_until":"soon"}`, "!usage "},
		{"user set", `{"name":"ada","vacation_days":1000}`, "!usage "},
		{"user set", `{"name":"ada","vacation":""}`, `"ada@example.com"`},
		{"user send-as allow", `{"name":"ada","by":"bo"}`, "Bo Peep may write as Ada Lovelace"},
		{"user send-as allow", `{"name":"Sales","by":"bo","behalf":true}`, "Bo Peep may write on behalf of Sales"},
		{"user send-as allow", `{"name":"ada","by":"nobody"}`, "!not found "},
		{"user show", `{"name":"ada"}`, `"send_as":["Bo Peep"]`},
		{"group show", `{"name":"Sales"}`, `"on_behalf":["Bo Peep"]`},
		{"user send-as deny", `{"name":"ada","by":"bo"}`, "may no longer write as"},
		{"group set",
			`{"name":"Sales","list":true,"owner":["bo"],"moderator":["z@far.example"],"tag":"sales","reply_to":"list"}`,
			`"list":"members may write, subjects begin with [sales], answers go to the list"`},
		{"group show", `{"name":"Sales"}`, `"owners":["Bo Peep"],"moderators":["z@far.example"]`},
		{"group set", `{"name":"Sales","post":"everybody"}`, "!usage "},
		{"group set", `{"name":"Sales","tag":"a]b"}`, "!usage "},
		{"list pending", `{}`, `[]`},
		{"list approve", `{"id":"00000000000000000000000000000001"}`, "!"},
	} {
		if got := run(x.verb, x.args); !strings.Contains(got, x.want) {
			t.Errorf("%s %s: %s, want %s", x.verb, x.args, got, x.want)
		}
	}
	if got := run("user show", `{"name":"ada"}`); strings.Contains(got, "send_as") ||
		strings.Contains(got, "vacation") || strings.Contains(got, "forward") {
		t.Error(got)
	}
	target, err := s.Directory.Names.Resolve(ctx, "sales@example.com")
	if err != nil {
		t.Fatal(err)
	}
	send := func() string {
		_, err := s.Mail.Deposits.Deposit(ctx, &mail.Submission{
			From: smtp.Path{Local: "eve", Domain: "far.example"}, Params: smtp.MailParams{Size: -1},
			Recipients: []mail.Recipient{{To: smtp.Path{Local: "sales", Domain: "example.com"}, Target: target}},
			Message:    []byte("From: eve@far.example\r\nSubject: hello\r\n\r\nx\r\n"),
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var list []Post
		if err := json.Unmarshal([]byte(run("list pending", `{"name":"Sales"}`)), &list); err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		if list[0].Author != "eve@far.example" || list[0].Subject != "hello" || list[0].Reason == "" ||
			list[0].List != "Sales" {
			t.Errorf("%+v", list[0])
		}
		return list[0].ID
	}
	if got := run("list reject", `{"id":"`+send()+`","reason":"no"}`); !strings.Contains(got, "rejected") {
		t.Error(got)
	}
	id := send()
	if got := run("queue release", `{"id":"`+id+`"}`); !strings.Contains(got, "moderators") {
		t.Error(got)
	}
	if got := run("list approve", `{"id":"`+id+`"}`); !strings.Contains(got, "approved") {
		t.Error(got)
	}
	if got := run("list pending", `{}`); got != "[]" {
		t.Error(got)
	}
}
