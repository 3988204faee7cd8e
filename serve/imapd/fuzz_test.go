package imapd

import (
	"context"
	"io"
	"net"
	"testing"
	"time"
)

// FuzzSession sends arbitrary bytes to a session, authenticated or not: it must end and leave nothing behind.
func FuzzSession(f *testing.F) {
	for _, s := range []string{
		"a LOGIN alice demo\r\nb SELECT INBOX\r\nc FETCH 1:* (FLAGS BODY[1.MIME]<1.2> BINARY[1])\r\n",
		"a APPEND INBOX (\\Seen) {5+}\r\na: b\r\nb COPY 1 Sent\r\nc MOVE 1:2 Sent\r\n",
		"a SEARCH RETURN (SAVE MIN) OR TEXT x NOT $\r\nb STORE $ (UNCHANGEDSINCE 1) -FLAGS.SILENT (a)\r\n",
		"a ENABLE QRESYNC IMAP4rev2\r\nb SELECT INBOX (QRESYNC (1 1 1:9 (1 1)))\r\n" +
			"c UID FETCH 1:* (UID) (CHANGEDSINCE 1 VANISHED)\r\n",
		"a IDLE\r\nDONE\r\nb LIST (SUBSCRIBED RECURSIVEMATCH) \"\" (% *) RETURN (STATUS (SIZE))\r\nc EXPUNGE\r\n",
		"a AUTHENTICATE PLAIN\r\nAGFsaWNlAGRlbW8=\r\nb CREATE x/y (USE (\\Sent))\r\nc RENAME x z\r\nd DELETE z/y\r\n",
		"a LOGIN {5}\r\nalice {4+}\r\ndemo\r\nb UNSELECT\r\nc CLOSE\r\nd LOGOUT\r\n",
		"a UID SORT RETURN (PARTIAL -1:-5) (REVERSE DATE DISPLAYFROM SUBJECT) UTF-8 YOUNGER 5\r\n" +
			"b THREAD REFERENCES UTF-8 ALL\r\nc UIDBATCHES 500\r\n",
		"a ESEARCH IN (personal subtree (Sent) selected) RETURN (MIN) ALL\r\nb UID FETCH 1:* FLAGS (PARTIAL 1:2)\r\n" +
			"c ENABLE UIDONLY\r\nd UID FETCH 1 UID\r\n",
		"a NOTIFY SET STATUS (selected (MessageNew (BODY[]) MessageExpunge FlagChange)) (personal (MailboxName " +
			"SubscriptionChange))\r\nb CREATE q\r\nc APPEND INBOX {4+}\r\na: b\r\nd NOTIFY NONE\r\ne IDLE\r\nDONE\r\n",
		"a FETCH 1 (BODY[HEADER.FIELDS.NOT (a b)] PREVIEW (LAZY) RFC822.TEXT)\r\nb NOOP\r\n\x00\xff\r\n" +
			"{9999999999999}\r\n",
		"b SELECT INBOX\r\nc APPEND INBOX {4+}\r\na: b (\\Seen) {4+}\r\na: b\r\nd REPLACE 1 INBOX {4+}\r\na: b\r\n" +
			"e UID REPLACE * Sent ~{4+}\r\na: b\r\n",
		"b SELECT INBOX\r\nc APPEND INBOX CATENATE (URL \"/INBOX/;UID=1/;SECTION=1\" TEXT {2+}\r\nab URL {7+}\r\n" +
			"/;UID=1) CATENATE (URL \";UID=2\")\r\n" +
			"d GENURLAUTH \"imap://alice@localhost/INBOX/;UID=1;URLAUTH=authuser\" INTERNAL\r\n",
		"b URLFETCH (\"imap://alice@localhost/INBOX/;UID=1;URLAUTH=anonymous:internal:01\" BINARY " +
			"BODYPARTSTRUCTURE) x\r\nc RESETKEY INBOX INTERNAL\r\nd RESETKEY\r\n",
		"b LIST \"\" % RETURN (METADATA (/shared/a /private/b))\r\n",
	} {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	// The quota limits the data that the inputs store and copy, which would slow down later inputs.
	h := open(f, settings{quota: 20_000})
	h.fill(f, 2, "From: a@b\r\nSubject: x\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\ntext\r\n"+
		"--b\r\nContent-Transfer-Encoding: base64\r\n\r\nQUJD\r\n--b--\r\n")
	f.Fuzz(func(t *testing.T, data []byte, signedIn bool) {
		mine, theirs := net.Pipe()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = h.Front.ServeConn(loopback{theirs}, &h.Door)
		}()
		go func() { _, _ = io.Copy(io.Discard, mine) }()
		_ = mine.SetWriteDeadline(time.Now().Add(20 * time.Second))
		if signedIn {
			_, _ = io.WriteString(mine, "x LOGIN alice demo\r\nx SELECT INBOX\r\n")
		}
		_, _ = mine.Write(data)
		_, _ = io.WriteString(mine, "\r\n")
		_ = mine.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		select {
		case <-ended:
		case <-ctx.Done():
			t.Fatalf("session does not end after %q", data)
		}
	})
}

// loopback is a pipe that looks like a connection from this machine.
type loopback struct{ net.Conn }

func (loopback) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
