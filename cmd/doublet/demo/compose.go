package demo

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"mime"
	"mime/quotedprintable"
	"strings"
	"time"
)

const dateFormat = "Mon, 02 Jan 2006 15:04:05 -0700"

// raw returns the message as CRLF lines. refs are the Message-IDs of the thread that it answers, oldest first.
func (m *message) raw(now time.Time, refs []string) []byte {
	var b bytes.Buffer
	field := func(name, value string) { fmt.Fprintf(&b, "%s: %s\r\n", name, value) }
	field("Date", now.Add(-m.ago).UTC().Format(dateFormat))
	field("From", m.from.field())
	field("To", fields(m.to))
	if len(m.cc) > 0 {
		field("Cc", fields(m.cc))
	}
	field("Subject", mime.QEncoding.Encode("utf-8", m.subject))
	field("Message-ID", m.id(now))
	if len(refs) > 0 {
		field("In-Reply-To", refs[len(refs)-1])
		field("References", strings.Join(refs, "\r\n "))
	}
	if m.from == digest {
		field("List-Id", "Domino tiles <domino-tiles.lists.example.net>")
	}
	field("MIME-Version", "1.0")
	m.body(&b)
	return b.Bytes()
}

// id returns the Message-ID. It is the same in all copies of one demo and differs between demos.
func (m *message) id(now time.Time) string {
	_, domain, _ := strings.Cut(m.from.address, "@")
	return fmt.Sprintf("<%s.%x@%s>", m.key, now.UnixNano(), domain)
}

func (p person) field() string {
	return (&mimeAddress{p}).String()
}

type mimeAddress struct{ person }

// String returns name <address>; a name that is not ASCII becomes an encoded word.
func (a *mimeAddress) String() string {
	name := mime.QEncoding.Encode("utf-8", a.name)
	if name == a.name && strings.ContainsAny(name, ".&,") {
		name = `"` + name + `"`
	}
	return name + " <" + a.address + ">"
}

func fields(list []person) string {
	out := make([]string, 0, len(list))
	for _, p := range list {
		out = append(out, p.field())
	}
	return strings.Join(out, ",\r\n ")
}

func (m *message) body(b *bytes.Buffer) {
	mixed, alternative := "mixed-"+hex.EncodeToString([]byte(m.key)), "alternative-"+hex.EncodeToString([]byte(m.key))
	if m.picture {
		fmt.Fprintf(b, "Content-Type: multipart/mixed; boundary=%q\r\n\r\n--%s\r\n", mixed, mixed)
	}
	if m.html != "" {
		fmt.Fprintf(b, "Content-Type: multipart/alternative; boundary=%q\r\n\r\n--%s\r\n", alternative, alternative)
		text(b, "plain", m.text)
		fmt.Fprintf(b, "\r\n--%s\r\n", alternative)
		text(b, "html", m.html+"\n")
		fmt.Fprintf(b, "\r\n--%s--\r\n", alternative)
	} else {
		text(b, "plain", m.text)
	}
	if m.picture {
		fmt.Fprintf(b, "\r\n--%s\r\nContent-Type: image/png; name=\"domino.png\"\r\n"+
			"Content-Disposition: attachment; filename=\"domino.png\"\r\n"+
			"Content-Transfer-Encoding: base64\r\n\r\n", mixed)
		lines(b, base64.StdEncoding.EncodeToString(picture()))
		fmt.Fprintf(b, "--%s--\r\n", mixed)
	}
}

func text(b *bytes.Buffer, subtype, s string) {
	fmt.Fprintf(b, "Content-Type: text/%s; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n",
		subtype)
	w := quotedprintable.NewWriter(b)
	_, _ = w.Write([]byte(strings.ReplaceAll(s, "\n", "\r\n"))) // a buffer accepts every write
	_ = w.Close()
}

func lines(b *bytes.Buffer, s string) {
	for len(s) > 0 {
		n := min(76, len(s))
		b.WriteString(s[:n] + "\r\n")
		s = s[n:]
	}
}

// picture returns a PNG of a domino tile with equal halves.
func picture() []byte {
	const w, h = 240, 480
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	ivory, ink, wood := color.RGBA{250, 246, 232, 255}, color.RGBA{32, 36, 48, 255}, color.RGBA{156, 104, 62, 255}
	dots := [][2]int{{70, 70}, {170, 70}, {120, 120}, {70, 170}, {170, 170}}
	for y := range h {
		for x := range w {
			c := wood
			// A little grain, so that the file does not compress to nothing.
			c.R += uint8((x*7 + y*y*3 + x*y) % 23)
			c.G += uint8((x*x + y*5) % 19)
			if x > 20 && x < w-20 && y > 20 && y < h-20 {
				c = ivory
			}
			if y > h/2-3 && y < h/2+3 && x > 40 && x < w-40 {
				c = ink
			}
			for _, d := range dots {
				for _, top := range []int{0, h / 2} {
					if dx, dy := x-d[0], y-d[1]-top; dx*dx+dy*dy < 18*18 {
						c = ink
					}
				}
			}
			img.SetRGBA(x, y, c)
		}
	}
	var b bytes.Buffer
	_ = png.Encode(&b, img) // a buffer accepts every write, and the size is valid
	return b.Bytes()
}
