package imapd

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

const benchMessage = "From: Ann Author <ann@example.org>\r\nTo: Bob Builder <bob@example.com>, carol@example.com\r\n" +
	"Subject: The plan for Monday\r\n" +
	"Date: Tue, 2 Jan 2024 03:04:05 +0000\r\nMessage-ID: <1@example.org>\r\nMIME-Version: 1.0\r\n" +
	"Content-Type: text/plain; charset=utf-8\r\n\r\n"

// skim reads up to the tagged response without keeping the data.
func skim(b *testing.B, c net.Conn, r *bufio.Reader, command, tag string) {
	if _, err := io.WriteString(c, command); err != nil {
		b.Fatal(err)
	}
	for {
		l, err := r.ReadSlice('\n')
		if err != nil && err != bufio.ErrBufferFull {
			b.Fatal(err)
		}
		if strings.HasPrefix(string(l[:min(len(l), len(tag))]), tag) {
			if !strings.Contains(string(l), "OK") {
				b.Fatal(string(l))
			}
			return
		}
	}
}

// BenchmarkCommands measures one command over loopback, including the client's share.
func BenchmarkCommands(b *testing.B) {
	h := open(b, settings{})
	h.fill(b, 1000, benchMessage+strings.Repeat("This is a line of the text of a message.\r\n", 60))
	c, r := h.raw(b)
	talk(b, c, r, "a LOGIN alice demo")
	talk(b, c, r, "b SELECT INBOX")
	_ = c.SetDeadline(time.Time{})
	for _, o := range []struct{ name, command string }{
		{"NOOP", "t NOOP\r\n"},
		{"SELECT", "t SELECT INBOX\r\n"},
		{"FETCH50", "t FETCH 951:1000 (UID FLAGS INTERNALDATE RFC822.SIZE ENVELOPE)\r\n"},
		{"FETCH1", "t UID FETCH 500 (BODY.PEEK[])\r\n"},
		{"STATUS", "t STATUS INBOX (MESSAGES UNSEEN)\r\n"},
		{"STORE", ""},
	} {
		b.Run(o.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				command := o.command
				if command == "" {
					command = fmt.Sprintf("t UID STORE %d %cFLAGS (\\Flagged)\r\n", 1+i%1000, "+-"[i/1000%2])
				}
				skim(b, c, r, command, "t ")
			}
		})
	}
}

// BenchmarkRead measures a FETCH of an unread message, which also sets \Seen.
func BenchmarkRead(b *testing.B) {
	h := open(b, settings{})
	const messages = 1000
	h.fill(b, messages, benchMessage+strings.Repeat("This is a line of the text of a message.\r\n", 60))
	c, r := h.raw(b)
	talk(b, c, r, "a LOGIN alice demo")
	talk(b, c, r, "b SELECT INBOX")
	_ = c.SetDeadline(time.Time{})
	b.ReportAllocs()
	for i := range b.N {
		if i%messages == 0 {
			b.StopTimer()
			skim(b, c, r, "t STORE 1:* -FLAGS.SILENT (\\Seen)\r\n", "t ")
			b.StartTimer()
		}
		skim(b, c, r, fmt.Sprintf("t UID FETCH %d (BODY[])\r\n", 1+i*7%messages), "t ")
	}
}
