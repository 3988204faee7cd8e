package libraries

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	dj "github.com/d--j/go-milter"
	emersion "github.com/emersion/go-milter"

	ours "doublet/client/milter"
	"doublet/env"
	wire "doublet/wire/milter"
	"doublet/wire/smtp"
)

// sick starts a filter with a defect, which it shows after the end of a message. It continues with every other step.
func sick(say func(net.Conn)) (address string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		for r := bufio.NewReader(nc); ; {
			var head [5]byte
			if _, err := io.ReadFull(r, head[:]); err != nil {
				return
			}
			if _, err := io.CopyN(io.Discard, r, int64(binary.BigEndian.Uint32(head[:]))-1); err != nil {
				return
			}
			switch wire.Code(head[4]) {
			case wire.Negotiate:
				_, _ = nc.Write(wire.AppendOptions(nil, wire.Options{Version: 6, Actions: wire.MayAddHeaders}))
			case wire.Macros:
			case wire.EndBody:
				say(nc)
			default:
				_, _ = nc.Write(wire.Append(nil, wire.Continue))
			}
		}
	}()
	return l.Addr().String(), nil
}

// defects holds what the filters do.
var defects = map[string]func(net.Conn){
	// A packet begins that is said to have half a gigabyte.
	"length": func(nc net.Conn) { _, _ = nc.Write([]byte{0x1f, 0xff, 0xff, 0xff, 'c'}) },
	"progress": func(nc net.Conn) {
		for {
			if _, err := nc.Write(wire.Append(nil, wire.Progress)); err != nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	},
	"changes": func(nc net.Conn) {
		field := wire.AppendStrings(nil, wire.AddHeader, "X", strings.Repeat("y", 60<<10))
		for {
			if _, err := nc.Write(field); err != nil {
				return
			}
		}
	},
	// A second verdict decides about the next message.
	"twice": func(nc net.Conn) { _, _ = nc.Write(wire.Append(wire.Append(nil, wire.Continue), wire.Discard)) },
}

const body = "text\r\n"

func askOurs(address string) error {
	f := ours.New(env.Real(slog.New(slog.DiscardHandler)), ours.Options{
		Network: "tcp", Address: address, Command: time.Second, Message: time.Second,
	})
	s, err := f.Open(context.Background())
	if err != nil {
		return err
	}
	for range 2 {
		v, err := s.Mail(smtp.Path{}, nil)
		if err == nil && v.Decision == ours.Continue {
			v, _, err = s.Message([]byte("Subject: x\r\n\r\n" + body))
		}
		if fmt.Print(" decision ", v.Decision, " ", err); err != nil {
			return nil //nolint:nilerr // it is printed
		}
	}
	return nil
}

func askEmersion(address string) error {
	c := emersion.NewClientWithOptions("tcp", address, emersion.ClientOptions{
		ReadTimeout: time.Second, WriteTimeout: time.Second, ActionMask: emersion.OptAddHeader,
	})
	s, err := c.Session()
	if err != nil {
		return err
	}
	for range 2 {
		a, err := s.Mail("", nil)
		if err == nil && a.Code == emersion.ActContinue {
			_, a, err = s.BodyReadFrom(strings.NewReader(body))
		}
		if err != nil {
			fmt.Print(" ", err)
			return nil
		}
		fmt.Printf(" decision %c", a.Code)
	}
	return nil
}

func askDJ(address string) error {
	c := dj.NewClient("tcp", address, dj.WithReadTimeout(time.Second), dj.WithWriteTimeout(time.Second))
	s, err := c.Session(dj.NewMacroBag())
	if err != nil {
		return err
	}
	if _, err := s.Conn("x", dj.FamilyInet, 25, "192.0.2.1"); err != nil {
		return err
	}
	if _, err := s.Helo("x"); err != nil {
		return err
	}
	for range 2 {
		a, err := s.Mail("", "")
		if err == nil && a.Type == dj.ActionContinue {
			a, err = djMessage(s)
		}
		if err != nil {
			fmt.Print(" ", err)
			return nil
		}
		fmt.Print(" decision ", a.Type)
	}
	return nil
}

func djMessage(s *dj.ClientSession) (*dj.Action, error) {
	if a, err := s.Rcpt("a@b.example", ""); err != nil {
		return a, err
	}
	if a, err := s.DataStart(); err != nil {
		return a, err
	}
	if a, err := s.HeaderEnd(); err != nil {
		return a, err
	}
	_, a, err := s.BodyReadFrom(strings.NewReader(body))
	return a, err
}

func init() {
	for name, ask := range map[string]func(string) error{"ours": askOurs, "emersion": askEmersion, "d--j": askDJ} {
		probes["milter "+name] = func() error {
			address, err := sick(defects[os.Getenv("DEFECT")])
			if err != nil {
				return err
			}
			return ask(address)
		}
	}
}

// TestMilter asks filters that are defective. A filter is a program of its own, which reads mail of strangers: what
// makes it fail must not stop or fill the mail server, nor decide about another message.
func TestMilter(t *testing.T) {
	lost := map[string]int{}
	for defect := range defects {
		for _, name := range []string{"ours", "emersion", "d--j"} {
			o := run(t, "milter "+name, "DEFECT="+defect)
			bad := !o.ended || o.failed || o.memory > 100
			if defect == "twice" {
				second := "decision d" // as each prints it
				if name == "d--j" {
					second = "decision 3"
				}
				bad = strings.Contains(o.output, second)
			}
			if bad && name == "ours" {
				t.Errorf("%s: %+v", defect, o)
			} else if bad {
				lost[name]++
			}
		}
	}
	for _, name := range []string{"emersion", "d--j"} {
		if lost[name] < 2 {
			t.Errorf("%s/go-milter fails with %d of %d defects: compare again", name, lost[name], len(defects))
		}
	}
}
