package imapd

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"doublet/directory"
	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/imap"
)

// urlWorld is a server with a message of alice's, and the data to prove a URL to it.
type urlWorld struct {
	*house
	t      *testing.T
	folder note.UNID
	number []byte
}

func newURLWorld(t *testing.T) *urlWorld {
	w := &urlWorld{house: open(t, settings{}), t: t}
	w.fill(t, 1, "Subject: x\r\n\r\nsecret\r\n")
	alice := w.people.accounts["alice"]
	file := w.people.mail.File(note.Who{Person: alice.ID}, alice.MailDatabase)
	var err error
	if w.folder, w.number, err = (mailbox.URLKeys{File: file}).Make(context.Background(), "INBOX"); err != nil {
		t.Fatal(err)
	}
	return w
}

// proved returns a rump with the token that a server would make with its secret.
func (w *urlWorld) proved(rump string, folder, maker note.UNID, number []byte) string {
	s := &session{srv: w.server}
	return rump + ":internal:" + hex.EncodeToString(s.proof(rump, folder, maker, number))
}

// fetched returns the data for a user who fetches a URL, "" for NIL.
func (w *urlWorld) fetched(user, url string) string {
	w.t.Helper()
	c := w.connect(w.t)
	if _, err := fmt.Fprintf(c, "a LOGIN %s demo\r\nb URLFETCH \"%s\"\r\nc LOGOUT\r\n", user, url); err != nil {
		w.t.Fatal(err)
	}
	var b strings.Builder
	for buf := make([]byte, 4096); ; {
		n, err := c.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			break
		}
	}
	_, rest, ok := strings.Cut(b.String(), "* URLFETCH \""+url+"\" ")
	data, _, ended := strings.Cut(rest, "\r\nb OK URLFETCH")
	if !ok || !ended {
		w.t.Fatalf("%q", b.String())
	}
	if data == "NIL" {
		return ""
	}
	return data
}

// TestURLAuth checks that a URL gives its data to the people it names, until it expires, its maker loses access, or the
// key changes, and in no other case.
func TestURLAuth(t *testing.T) {
	t.Parallel()
	w := newURLWorld(t)
	alice, bob := w.people.accounts["alice"].ID, w.people.accounts["bob"].ID
	const rump = "imap://alice@localhost/INBOX/;UID=1;URLAUTH=user+bob"
	good := w.proved(rump, w.folder, alice, w.number)
	if got := w.fetched("bob", good); !strings.Contains(got, "secret") {
		t.Fatalf("%q", got)
	}
	past := "imap://alice@localhost/INBOX/;UID=1;EXPIRE=" + time.Now().Add(-time.Second).UTC().Format(time.RFC3339) +
		";URLAUTH=user+bob"
	future := "imap://alice@localhost/INBOX/;UID=1;EXPIRE=" + time.Now().Add(time.Hour).UTC().Format(time.RFC3339) +
		";URLAUTH=user+bob"
	if got := w.fetched("bob", w.proved(future, w.folder, alice, w.number)); got == "" {
		t.Error("a URL that has not expired is refused")
	}
	other := append([]byte{w.number[0] ^ 1}, w.number[1:]...)
	for name, url := range map[string]string{
		"expired":          w.proved(past, w.folder, alice, w.number),
		"another's key":    w.proved(rump, w.folder, bob, w.number),
		"another folder's": w.proved(rump, note.UNID{1}, alice, w.number),
		"another number":   w.proved(rump, w.folder, alice, other),
		"no number":        w.proved(rump, w.folder, alice, nil),
		"cut token":        good[:len(good)-2],
		"longer token":     good + "00",
		"other user": w.proved("imap://bob@localhost/INBOX/;UID=1;URLAUTH=user+bob", w.folder,
			alice, w.number),
		"later expiry": strings.Replace(w.proved(past, w.folder, alice, w.number), "EXPIRE=2", "EXPIRE=3", 1),
		"for carol":    strings.Replace(good, "user+bob", "user+carol", 1),
		"for anybody":  strings.Replace(good, "user+bob", "authuser", 1),
		"for submission": w.proved("imap://alice@localhost/INBOX/;UID=1;URLAUTH=submit+bob", w.folder,
			alice, w.number),
		"no such message": w.proved("imap://alice@localhost/INBOX/;UID=2;URLAUTH=user+bob", w.folder,
			alice, w.number),
		"the next message": strings.Replace(good, "UID=1", "UID=2", 1),
		"another UIDVALIDITY": w.proved("imap://alice@localhost/INBOX;UIDVALIDITY=1/;UID=1;URLAUTH=user+bob", w.folder,
			alice, w.number),
	} {
		if got := w.fetched("bob", url); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
	for _, who := range []string{"alice", "carol"} {
		if got := w.fetched(who, good); got != "" {
			t.Errorf("%s: %q", who, got)
		}
	}
	disabled := func() (note.Who, error) { return note.Who{}, directory.ErrDisabled }
	s := &session{srv: w.server}
	u, err := imap.ParseURL(good)
	if err != nil || u.Rump != rump || len(s.proof(u.Rump, w.folder, alice, w.number)) != 33 {
		t.Fatal(u, err)
	}
	w.people.today.Store(&disabled)
	if got := w.fetched("bob", good); got != "" {
		t.Errorf("of a disabled account: %q", got)
	}
	w.people.today.Store(nil)
	if got := w.fetched("bob", good); got == "" {
		t.Error("refused for good")
	}
}

// TestURLKeyIsSecret checks that the number of a folder is not readable as an annotation, and is useless without the
// secret of the domain.
func TestURLKeyIsSecret(t *testing.T) {
	t.Parallel()
	w := newURLWorld(t)
	alice := w.people.accounts["alice"]
	file := w.people.mail.File(note.Who{Person: alice.ID}, alice.MailDatabase)
	for _, name := range []string{"INBOX", ""} {
		list, err := file.Annotations(context.Background(), name)
		if err != nil || len(list) != 0 {
			t.Errorf("%q: %v, %v", name, list, err)
		}
	}
	_, again, err := mailbox.URLKeys{File: file}.Make(context.Background(), "INBOX")
	if err != nil || string(again) != string(w.number) {
		t.Errorf("%x, %x, %v", again, w.number, err)
	}
	if err := (mailbox.URLKeys{File: file}).Reset(context.Background(), ""); err != nil {
		t.Fatal(err)
	}
	if _, none, err := (mailbox.URLKeys{File: file}).Get(context.Background(), "INBOX"); err != nil || none != nil {
		t.Errorf("%x, %v", none, err)
	}
}

// TestURLFetchMemory leaves a large response unread: the unsent data stays reserved.
func TestURLFetchMemory(t *testing.T) {
	t.Parallel()
	const size = 16 << 20
	w := &urlWorld{house: open(t, settings{message: 2 * size}), t: t}
	w.fill(t, 1, "Content-Transfer-Encoding: base64\r\n\r\n"+strings.Repeat(strings.Repeat("QUJD", 19)+"\r\n", size/57))
	alice := w.people.accounts["alice"]
	file := w.people.mail.File(note.Who{Person: alice.ID}, alice.MailDatabase)
	var err error
	if w.folder, w.number, err = (mailbox.URLKeys{File: file}).Make(context.Background(), "INBOX"); err != nil {
		t.Fatal(err)
	}
	url := w.proved("imap://alice@localhost/INBOX/;UID=1/;SECTION=1;URLAUTH=anonymous", w.folder, alice.ID, w.number)
	c, r := w.raw(t)
	talk(t, c, r, "a LOGIN alice demo")
	if _, err := fmt.Fprintf(c, "b URLFETCH (\"%s\" BINARY)\r\n", url); err != nil {
		t.Fatal(err)
	}
	line, err := r.ReadString('\n')
	if err != nil || !strings.Contains(line, "(BINARY {") {
		t.Fatalf("%q: %v", line, err)
	}
	if n := w.server.cfg.Memory.Used(); n < size/2 {
		t.Errorf("%d bytes are reserved for an answer of %d that is not read", n, size)
	}
	if _, err := io.Copy(io.Discard, io.LimitReader(r, size/57*57+3)); err != nil {
		t.Fatal(err)
	}
	if got, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(got, "b OK") {
		t.Errorf("%q: %v", got, err)
	}
}
