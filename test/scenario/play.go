package scenario

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Dial opens a connection. name is the name in the brackets, empty for plain C: and S:.
type Dial func(name string) (net.Conn, error)

// Options control the conversations of a suite.
type Options struct {
	// Literals makes the player read IMAP literals as parts of a line.
	Literals bool
	// TLS implements `C: <tls>`.
	TLS func(net.Conn) (net.Conn, error)
	// Vars are names with initial values.
	Vars map[string]string
	// Patience is the timeout of one read or write; 0 means 20 s. Conversations must not depend on it.
	Patience time.Duration
}

const (
	maxLine     = 64 << 20 // bytes of a line with its literals
	maxSkipped  = 100_000  // lines that one S~: may skip
	transcripts = 60       // lines shown when a conversation fails
)

// Run plays every file that matches glob, each conversation as a subtest. It calls setup for each of them, which
// returns a function that connects to a fresh server.
func Run(t *testing.T, glob string, o Options, setup func(t *testing.T) Dial) {
	t.Helper()
	files, err := filepath.Glob(glob)
	if err != nil || len(files) == 0 {
		t.Fatalf("scenario: no files %s (%v)", glob, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
		t.Run(name, func(t *testing.T) { RunText(t, file, string(raw), o, setup) })
	}
}

// RunText does the work of Run for the text of one file.
func RunText(t *testing.T, file, text string, o Options, setup func(t *testing.T) Dial) {
	t.Helper()
	parts, err := Parse(file, text)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range parts {
		if c.Name == "" {
			play(t, c, o, setup)
			continue
		}
		t.Run(c.Name, func(t *testing.T) { play(t, c, o, setup) })
	}
}

func play(t *testing.T, c Conversation, o Options, setup func(t *testing.T) Dial) {
	t.Helper()
	if err := c.Play(setup(t), o); err != nil {
		t.Fatal(err)
	}
}

// Play plays the conversation over connections of dial and closes them. Its error names the line of the file and shows
// the transcript.
func (c Conversation) Play(dial Dial, o Options) error {
	p := player{o: o, dial: dial, conns: map[string]*peer{}, vars: map[string]string{}}
	maps.Copy(p.vars, o.Vars)
	if p.o.Patience == 0 {
		p.o.Patience = 20 * time.Second
	}
	defer p.close()
	for i := range c.steps {
		s := &c.steps[i]
		if err := p.step(s); err != nil {
			return fmt.Errorf("%s: %w\n%s", s.where(), err, p.transcript())
		}
	}
	return nil
}

type player struct {
	o     Options
	dial  Dial
	conns map[string]*peer
	vars  map[string]string
	said  []string
}

// peer is one connection. may holds the optional lines that may come before the next expected one: an S?: step reads
// nothing itself, because a server that omits the line would make it wait in vain.
type peer struct {
	name string
	c    net.Conn
	r    *bufio.Reader
	may  []*step
}

func (p *player) close() {
	for _, c := range p.conns {
		c.c.Close()
	}
}

func (p *player) peer(name string) (*peer, error) {
	if c := p.conns[name]; c != nil {
		return c, nil
	}
	c, err := p.dial(name)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	p.conns[name] = &peer{name: name, c: c, r: bufio.NewReaderSize(c, 16<<10)}
	return p.conns[name], nil
}

func (p *player) step(s *step) error {
	c, err := p.peer(s.conn)
	if err != nil {
		return err
	}
	switch s.verb {
	case send, sendRaw:
		return p.send(c, s)
	case block:
		return p.block(c, s)
	}
	if s.verb == optional {
		c.may = append(c.may, s)
		return nil
	}
	if s.text == "<eof>" {
		return p.eof(c)
	}
	pat, err := compileStep(s, p.vars)
	if err != nil {
		return err
	}
	for range maxSkipped {
		line, err := p.next(c)
		if err != nil {
			return fmt.Errorf("waiting for %q: %w", s.text, err)
		}
		if pat.match(line, p.vars) {
			c.may = nil
			return nil
		}
		if s.verb == expect {
			return fmt.Errorf("server sent\n\t%q\nwant\n\t%q", line, s.text)
		}
	}
	return fmt.Errorf("no line fits %q", s.text)
}

// next reads the next line that matches no optional one.
func (p *player) next(c *peer) (string, error) {
	for {
		line, err := p.read(c)
		if err != nil {
			return "", err
		}
		hit, err := p.find(c.may, line)
		if err != nil || hit < 0 {
			return line, err
		}
		c.may = slices.Delete(c.may, hit, hit+1)
	}
}

// find returns the index of the first step that matches line, or -1.
func (p *player) find(steps []*step, line string) (int, error) {
	for i, s := range steps {
		pat, err := compileStep(s, p.vars)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", s.where(), err)
		}
		if pat.match(line, p.vars) {
			return i, nil
		}
	}
	return -1, nil
}

// compileStep compiles the pattern of a line with its literals, which the server sends as {length} CRLF octets.
func compileStep(s *step, vars map[string]string) (*pattern, error) {
	text := s.text
	for _, l := range s.literals {
		text = strings.Replace(text, "{literal}", "{*}\r\n"+l, 1)
	}
	return compile(text, vars)
}

// block reads until every S: of the block has matched a line. Its S?: lines may come until the next expected line.
func (p *player) block(c *peer, s *step) error {
	var open []*step
	for i := range s.block {
		if b := &s.block[i]; b.verb == optional {
			c.may = append(c.may, b)
		} else {
			open = append(open, b)
		}
	}
	for len(open) > 0 {
		line, err := p.read(c)
		if err != nil {
			return fmt.Errorf("in the block, waiting for %q: %w", texts(open), err)
		}
		hit, err := p.find(open, line)
		if err != nil {
			return err
		}
		if hit >= 0 {
			open = slices.Delete(open, hit, hit+1)
			continue
		}
		if hit, err = p.find(c.may, line); err != nil {
			return err
		}
		if hit < 0 {
			return fmt.Errorf("server sent\n\t%q\nwant one of\n\t%q", line, texts(open))
		}
		c.may = slices.Delete(c.may, hit, hit+1)
	}
	return nil
}

func texts(steps []*step) []string {
	var out []string
	for _, s := range steps {
		out = append(out, s.text)
	}
	return out
}

func (p *player) eof(c *peer) error {
	line, err := p.next(c)
	if err == nil {
		return fmt.Errorf("server sent %q instead of closing the connection", line)
	}
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		return fmt.Errorf("server keeps the connection open: %w", err)
	}
	return nil // an end or a reset
}

// awaitPlus waits until the server asks for a literal.
func (p *player) awaitPlus(c *peer) error {
	line, err := p.read(c)
	if err != nil {
		return fmt.Errorf("waiting to send a literal: %w", err)
	}
	if !strings.HasPrefix(line, "+") {
		return fmt.Errorf("server sent %q instead of + for a literal", line)
	}
	return nil
}

func (p *player) send(c *peer, s *step) error {
	switch s.text {
	case "<close>":
		p.note("C", c, "<close>")
		return c.c.Close()
	case "<tls>":
		return p.tls(c)
	}
	rest := s.text
	for _, l := range s.literals {
		body, err := expand(l, p.vars)
		if err != nil {
			return err
		}
		at := strings.Index(rest, "{literal")
		before, plus := rest[:at], ""
		rest = strings.TrimPrefix(rest[at:], "{literal")
		if strings.HasPrefix(rest, "+") {
			plus, rest = "+", rest[1:]
		}
		rest = strings.TrimPrefix(rest, "}")
		if before, err = expand(before, p.vars); err != nil {
			return err
		}
		if err := p.write(c, before+"{"+strconv.Itoa(len(body))+plus+"}\r\n"); err != nil {
			return err
		}
		if plus == "" {
			if err := p.awaitPlus(c); err != nil {
				return err
			}
		}
		if err := p.write(c, body); err != nil {
			return err
		}
	}
	end, err := expand(rest, p.vars)
	if err != nil {
		return err
	}
	if s.verb == send {
		end += "\r\n"
	}
	return p.write(c, end)
}

func (p *player) tls(c *peer) error {
	if p.o.TLS == nil {
		return errors.New("suite has no TLS")
	}
	if c.r.Buffered() > 0 {
		return errors.New("server sent plain text after STARTTLS")
	}
	if err := c.c.SetDeadline(time.Now().Add(p.o.Patience)); err != nil {
		return err
	}
	secure, err := p.o.TLS(c.c)
	if err != nil {
		return fmt.Errorf("TLS: %w", err)
	}
	c.c = secure
	c.r.Reset(secure)
	p.note("C", c, "<tls>")
	return nil
}

func (p *player) write(c *peer, text string) error {
	p.note("C", c, text)
	if err := c.c.SetWriteDeadline(time.Now().Add(p.o.Patience)); err != nil {
		return err
	}
	if _, err := io.WriteString(c.c, text); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

var literalEnd = regexp.MustCompile(`\{(\d{1,9})\+?\}\r?\n\z`)

// read returns the server's next line without its line end. With Options.Literals it includes literals, after their
// length and CRLF.
func (p *player) read(c *peer) (string, error) {
	if err := c.c.SetReadDeadline(time.Now().Add(p.o.Patience)); err != nil {
		return "", err
	}
	var all []byte
	for {
		piece, err := readLine(c.r, maxLine-len(all))
		all = append(all, piece...)
		if err != nil {
			if len(all) > 0 {
				p.note("S", c, string(all))
				err = fmt.Errorf("%w after %q", err, all)
			}
			return "", err
		}
		if !p.o.Literals {
			break
		}
		m := literalEnd.FindSubmatch(piece)
		if m == nil {
			break
		}
		n, err := strconv.Atoi(string(m[1]))
		if err != nil || n > maxLine-len(all) {
			return "", fmt.Errorf("literal of %s octets", m[1])
		}
		octets := make([]byte, n)
		if _, err := io.ReadFull(c.r, octets); err != nil {
			return "", fmt.Errorf("in a literal of %d octets: %w", n, err)
		}
		all = append(all, octets...)
	}
	line := strings.TrimSuffix(strings.TrimSuffix(string(all), "\n"), "\r")
	p.note("S", c, line)
	return line, nil
}

func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		piece, err := r.ReadSlice('\n')
		line = append(line, piece...)
		if len(line) > limit {
			return nil, errors.New("line of the server is too long")
		}
		if err != bufio.ErrBufferFull {
			return line, err
		}
	}
}

func (p *player) note(who string, c *peer, text string) {
	if c.name != "" {
		who += "[" + c.name + "]"
	}
	text = strconv.Quote(strings.TrimSuffix(text, "\r\n"))
	text = text[1 : len(text)-1]
	if len(text) > 500 {
		text = text[:500] + "…"
	}
	p.said = append(p.said, who+": "+text)
	if len(p.said) > 2*transcripts {
		p.said = append(p.said[:0], p.said[len(p.said)-transcripts:]...)
	}
}

func (p *player) transcript() string {
	said := p.said[max(0, len(p.said)-transcripts):]
	return "what was said:\n\t" + strings.Join(said, "\n\t")
}
