package attack

import (
	"bufio"
	"bytes"
	"compress/flate"
	"encoding/base64"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"doublet/test/long"
)

// imap signs in and returns the connection.
func (v *victim) imap() (net.Conn, *bufio.Reader) {
	c, err := net.Dial("tcp", "127.0.0.1:"+v.Port["imap"])
	if err != nil {
		v.t.Error(err)
		return nil, nil
	}
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	r := bufio.NewReader(c)
	fmt.Fprintf(c, "a LOGIN alice %s\r\nb SELECT INBOX\r\n", v.token)
	if line := await(r, "b "); !strings.HasPrefix(line, "b OK") {
		v.t.Errorf("IMAP sign-in: %q", line)
	}
	return c, r
}

// await reads up to the line that begins with a tag.
func await(r *bufio.Reader, tag string) string {
	for {
		line, err := r.ReadString('\n')
		if err != nil || strings.HasPrefix(line, tag) {
			return line
		}
	}
}

// attackIMAP requests the same parts of one message repeatedly, and announces messages that never end.
func (v *victim) attackIMAP() {
	var to strings.Builder
	for i := range 12_000 {
		fmt.Fprintf(&to, "\r\n\tPerson number %d <person%d@far.example>,", i, i)
	}
	binary := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("0123456789"), 300<<10))
	v.append([]byte("Subject: attack\r\nTo: last@far.example," + strings.TrimSuffix(to.String(), ",") +
		"\r\nMIME-Version: 1.0\r\nContent-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\n\r\n" +
		binary + "\r\n"))
	for _, a := range []struct{ name, item string }{
		{"envelopes", "ENVELOPE"}, {"headers", "BODY.PEEK[HEADER.FIELDS (TO)]"}, {"parts", "BINARY.PEEK[1]"},
		{"pieces", "BODY.PEEK[]<0.32768>"},
	} {
		v.attack("IMAP "+a.name, 8, func(int) bool {
			c, r := v.imap()
			if c == nil {
				return true
			}
			defer c.Close()
			fmt.Fprintf(c, "c FETCH * (%s)\r\n", strings.Repeat(a.item+" ", 250)+"UID")
			line := await(r, "c ")
			if !strings.HasPrefix(line, "c OK") && !strings.Contains(line, "LIMIT") {
				v.t.Errorf("IMAP %s: %q", a.name, line)
			}
			return strings.Contains(line, "LIMIT")
		})
	}
	v.attack("IMAP messages", 40, func(int) bool {
		c, r := v.imap()
		if c == nil {
			return true
		}
		defer c.Close()
		fmt.Fprintf(c, "c APPEND INBOX {%d}\r\n", 18<<20)
		if line, _ := r.ReadString('\n'); !strings.HasPrefix(line, "+") {
			return strings.Contains(line, "LIMIT")
		}
		_, _ = c.Write(bytes.Repeat([]byte("line\r\n"), 17<<20/6))
		time.Sleep(2 * time.Second)
		return false
	})
}

// attackWriting sends endless messages over SMTP.
func (v *victim) attackWriting() {
	v.attack("SMTP messages", 40, func(int) bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+v.Port["smtp"])
		if err != nil {
			return true
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(30 * time.Second))
		r := bufio.NewReader(c)
		fmt.Fprint(c, "EHLO x\r\nMAIL FROM:<>\r\nRCPT TO:<alice@example.com>\r\nDATA\r\n")
		for {
			line, err := r.ReadString('\n')
			if err != nil || strings.HasPrefix(line, "452 4.3.1") {
				return true
			}
			if strings.HasPrefix(line, "354") {
				break
			}
		}
		_, _ = c.Write(bytes.Repeat([]byte("line\r\n"), 17<<20/6))
		_ = c.SetReadDeadline(time.Now().Add(3 * time.Second))
		line, _ := r.ReadString('\n')
		return strings.HasPrefix(line, "452")
	})
}

// attackLite sends a form with files to the web client without scripts.
func (v *victim) attackLite() {
	base := "http://127.0.0.1:" + v.Port["http"]
	jar, _ := cookiejar.New(nil)
	web := &http.Client{Jar: jar, Timeout: time.Minute}
	out, err := web.PostForm(base+"/lite/sign-in", url.Values{"user": {"alice"}, "password": {"demo"}})
	if err == nil {
		out.Body.Close()
		out, err = web.Get(base + "/lite/compose")
	}
	if err != nil {
		v.t.Fatal(err)
	}
	page, _ := io.ReadAll(out.Body)
	out.Body.Close()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	_ = w.WriteField("csrf", first(v.t, page, `name="csrf" value="([^"]*)"`))
	_ = w.WriteField("identity", first(v.t, page, `name="identity" value="([^"]*)"`))
	_ = w.WriteField("to", "bob@example.com")
	_ = w.WriteField("do", "save")
	for i := range 3 {
		p, _ := w.CreateFormFile("upload", fmt.Sprint(i))
		_, _ = p.Write(bytes.Repeat([]byte{'x'}, 5<<20))
	}
	_ = w.Close()
	stranger := &http.Client{Timeout: time.Minute}
	v.attack("forms with files of strangers", 30, func(int) bool {
		out, err := stranger.Post(base+"/lite/compose", w.FormDataContentType(), bytes.NewReader(body.Bytes()))
		if err != nil {
			return true
		}
		defer out.Body.Close()
		_, _ = io.Copy(io.Discard, out.Body)
		return out.StatusCode >= 400
	})
	v.attack("forms with files", 30, func(int) bool {
		out, err := web.Post(base+"/lite/compose", w.FormDataContentType(), bytes.NewReader(body.Bytes()))
		if err != nil {
			return true
		}
		defer out.Body.Close()
		_, _ = io.Copy(io.Discard, out.Body)
		return out.StatusCode >= 400
	})
}

// attackHeaders sends headers of the maximum length that do not end.
func (v *victim) attackHeaders() {
	v.attack("headers", 400, func(int) bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+v.Port["http"])
		if err != nil {
			return true
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\nX-A: %s", strings.Repeat("a", 1<<20))
		time.Sleep(time.Second)
		line, _ := bufio.NewReader(c).ReadString('\n')
		return strings.Contains(line, "431")
	})
}

// compressed signs in over IMAP and starts COMPRESS. It returns nil if too many connections are compressed.
func (v *victim) compressed() (net.Conn, *flate.Writer, *bufio.Reader) {
	c, r := v.imap()
	if c == nil {
		return nil, nil, nil
	}
	fmt.Fprint(c, "c COMPRESS DEFLATE\r\n")
	if line := await(r, "c "); !strings.HasPrefix(line, "c OK") {
		if !strings.Contains(line, "LIMIT") {
			v.t.Errorf("COMPRESS: %q", line)
		}
		c.Close()
		return nil, nil, nil
	}
	w, _ := flate.NewWriter(c, flate.BestSpeed)
	return c, w, bufio.NewReader(flate.NewReader(r))
}

// TestMemoryOfCompression sends messages and lines over IMAP with COMPRESS that unpack to far more than their size, and
// requests messages without reading the answers.
func TestMemoryOfCompression(t *testing.T) {
	long.Test(t)
	v := startVictim(t)
	for i := range 12 {
		v.append(fmt.Appendf(nil, "Subject: %d\r\n\r\n%s", i, strings.Repeat("line\r\n", 3<<20/6)))
	}
	message := bytes.Repeat([]byte("line\r\n"), 17<<20/6)
	v.attack("messages", 30, func(int) bool {
		c, w, r := v.compressed()
		if c == nil {
			return true
		}
		defer c.Close()
		fmt.Fprintf(w, "d APPEND INBOX {%d}\r\n", 18<<20)
		_ = w.Flush()
		if line := await(r, ""); !strings.HasPrefix(line, "+") {
			return strings.Contains(line, "LIMIT")
		}
		_, _ = w.Write(message)
		_ = w.Flush()
		time.Sleep(2 * time.Second)
		return false
	})
	v.attack("answers that nobody reads", 30, func(int) bool {
		c, w, r := v.compressed()
		if c == nil {
			return true
		}
		defer c.Close()
		fmt.Fprint(w, "d FETCH 1:* (BODY.PEEK[])\r\n")
		_ = w.Flush()
		line := await(r, "")
		time.Sleep(2 * time.Second)
		return strings.Contains(line, "LIMIT")
	})
	v.attack("lines", 30, func(int) bool {
		c, w, r := v.compressed()
		if c == nil {
			return true
		}
		defer c.Close()
		for range 64 { // a line of 64 MB
			if _, err := w.Write(bytes.Repeat([]byte{'x'}, 1<<20)); err != nil {
				return true
			}
		}
		_ = w.Flush()
		// The server answers and closes the connection before it has read all of it, so the answer may be lost.
		line := await(r, "")
		if line != "" && !strings.HasPrefix(line, "* BYE [LIMIT]") {
			t.Errorf("a line of 64 MB: %q", line)
		}
		return true
	})
}
