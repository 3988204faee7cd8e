package milter

import (
	"bytes"
	"reflect"
	"testing"
)

func TestPackets(t *testing.T) {
	t.Parallel()
	b := AppendOptions(nil, Options{Version, MayAddHeaders | MayQuarantine, NoHelo | LeadingSpace})
	if want := []byte("\x00\x00\x00\x0dO\x00\x00\x00\x06\x00\x00\x00\x21\x00\x10\x00\x02"); !bytes.Equal(b, want) {
		t.Errorf("%q", b)
	}
	c, data, n, err := Next(b)
	if o, bad := ParseOptions(data); c != Negotiate || n != len(b) || err != nil || bad != nil ||
		o.Steps != NoHelo|LeadingSpace || o.Actions != MayAddHeaders|MayQuarantine {
		t.Error(c, n, err, bad, o)
	}
	b = AppendConnect(nil, "client.example", FamilyIPv4, 4711, "192.0.2.7")
	if want := []byte("\x00\x00\x00\x1dCclient.example\x004\x12\x67192.0.2.7\x00"); !bytes.Equal(b, want) {
		t.Errorf("%q", b)
	}
	b = AppendMacros(nil, Mail, "i", "4711", "{mail_addr}", "a\x00b")
	if want := []byte("\x00\x00\x00\x18DMi\x004711\x00{mail_addr}\x00ab\x00"); !bytes.Equal(b, want) {
		t.Errorf("%q", b)
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, a := range []Answer{
		{Code: Continue}, {Code: Accept}, {Code: TempFail}, {Code: Progress},
		{Code: AddHeader, Name: "X-A", Value: "b\n c"},
		{Code: InsertHeader, Index: 3, Name: "X-B", Value: ""},
		{Code: ChangeHeader, Index: 1, Name: "Subject", Value: "new"},
		{Code: ReplyCode, Value: "550 5.7.1 no"}, {Code: Quarantine, Value: "virus"}, {Code: AddRcpt, Value: "<a@b>"},
		{Code: DeleteRcpt, Value: "<a@b>"},
		{Code: ReplaceBody, Body: []byte("x\x00y")}, {Code: ChangeFrom, Value: "<>"},
	} {
		c, data, _, err := Next(a.Append(nil))
		got, bad := ParseAnswer(c, data)
		if err != nil || bad != nil || !reflect.DeepEqual(got, a) {
			t.Errorf("%+v: %+v, %v, %v", a, got, err, bad)
		}
	}
	for _, bad := range []string{"h", "i\x00\x00", "m\x00\x00\x00\x01", "y", "?", "h\x00x\x00", "ha\x00b\x00c\x00"} {
		if a, err := ParseAnswer(Code(bad[0]), []byte(bad[1:])); err == nil {
			t.Errorf("%q: %+v", bad, a)
		}
	}
}

func TestNextBounds(t *testing.T) {
	t.Parallel()
	for _, b := range []string{"\x00\x00\x00\x00", "\x7f\xff\xff\xffc", "\x00\x10\x10\x00"} {
		if _, _, n, err := Next([]byte(b)); n != 0 || err == nil {
			t.Errorf("%q: %d, %v", b, n, err)
		}
	}
	if _, _, n, err := Next([]byte("\x00\x00\x00\x02c")); n != 0 || err != nil {
		t.Error(n, err)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x01c"))
	f.Add(Answer{Code: InsertHeader, Index: 3, Name: "X-B", Value: "v"}.Append(nil))
	f.Add(AppendOptions(nil, Options{Version: 6}))
	f.Fuzz(func(t *testing.T, b []byte) {
		for range 100 {
			c, data, n, err := Next(b)
			if err != nil || n == 0 {
				return
			}
			if _, err := ParseOptions(data); err == nil && len(data) < 12 {
				t.Fatal("short negotiation")
			}
			if a, err := ParseAnswer(c, data); err == nil {
				// A parsed answer, encoded and parsed again, is the same.
				c2, data2, _, err := Next(a.Append(nil))
				if err != nil {
					t.Fatal(err)
				}
				if b, err := ParseAnswer(c2, data2); err != nil || b.Code != a.Code || b.Name != a.Name ||
					b.Value != a.Value || b.Index != a.Index || !bytes.Equal(b.Body, a.Body) {
					t.Fatalf("%+v, %+v, %v", a, b, err)
				}
			}
			b = b[n:]
		}
	})
}
