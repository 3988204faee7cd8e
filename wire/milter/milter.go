// Package milter is the grammar of the milter protocol, version 6, in which mail servers ask filters:
// packets of a length, a letter and data. Nobody published it as a standard; it is what Sendmail's
// libmilter speaks, and every filter with it.
package milter

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Version is the protocol's.
const Version = 6

// MaxPacket is the largest packet that is read: a chunk of a body and what stands around it.
const MaxPacket = 1<<20 + 1024

// MaxChunk is how much of a body one packet carries, as every filter takes it.
const MaxChunk = 65535

// ErrMalformed is what no filter says.
var ErrMalformed = errors.New("milter: malformed packet")

// Code is a packet's letter.
type Code byte

// What a server says.
const (
	Negotiate Code = 'O' // both sides
	Macros    Code = 'D'
	Connect   Code = 'C'
	Helo      Code = 'H'
	Mail      Code = 'M'
	Rcpt      Code = 'R'
	Data      Code = 'T'
	Header    Code = 'L'
	EndHeader Code = 'N'
	Body      Code = 'B'
	EndBody   Code = 'E'
	Abort     Code = 'A'
	Quit      Code = 'Q'
	Unknown   Code = 'U'
)

// What a filter says.
const (
	Continue     Code = 'c'
	Accept       Code = 'a'
	Reject       Code = 'r'
	TempFail     Code = 't'
	Discard      Code = 'd'
	ReplyCode    Code = 'y'
	Skip         Code = 's'
	Progress     Code = 'p'
	ConnFail     Code = 'f'
	Shutdown     Code = '4'
	AddRcpt      Code = '+'
	AddRcptArgs  Code = '2'
	DeleteRcpt   Code = '-'
	ReplaceBody  Code = 'b'
	AddHeader    Code = 'h'
	InsertHeader Code = 'i'
	ChangeHeader Code = 'm'
	ChangeFrom   Code = 'e'
	Quarantine   Code = 'q'
)

// Actions are what a filter may do to a message.
type Actions uint32

// The actions.
const (
	MayAddHeaders Actions = 1 << iota
	MayChangeBody
	MayAddRcpt
	MayDeleteRcpt
	MayChangeHeaders
	MayQuarantine
	MayChangeFrom
	MayAddRcptArgs
	MaySetMacros
)

// Steps are what a filter does not want to see, and what it does not answer.
type Steps uint32

// The steps.
const (
	NoConnect Steps = 1 << iota
	NoHelo
	NoMail
	NoRcpt
	NoBody
	NoHeaders
	NoEndHeader
	NoReplyHeader
	NoUnknown
	NoData
	MaySkip
	RejectedRcpt // show recipients that were refused, too
	NoReplyConnect
	NoReplyHelo
	NoReplyMail
	NoReplyRcpt
	NoReplyData
	NoReplyUnknown
	NoReplyEndHeader
	NoReplyBody
	LeadingSpace // header values keep the blank behind the colon
)

// Options is a negotiation: what the server offers, and what of it the filter takes.
type Options struct {
	Version uint32
	Actions Actions
	Steps   Steps
}

// Append adds a packet.
func Append(dst []byte, c Code, data ...[]byte) []byte {
	n := 1
	for _, d := range data {
		n += len(d)
	}
	dst = append(binary.BigEndian.AppendUint32(dst, uint32(n)), byte(c))
	for _, d := range data {
		dst = append(dst, d...)
	}
	return dst
}

// AppendStrings adds a packet whose data are strings, each with its NUL. A NUL inside is left out,
// as it would end the string.
func AppendStrings(dst []byte, c Code, list ...string) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0, byte(c))
	for _, s := range list {
		dst = appendString(dst, s)
	}
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}

func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if s[i] != 0 {
			dst = append(dst, s[i])
		}
	}
	return append(dst, 0)
}

// AppendOptions adds a negotiation.
func AppendOptions(dst []byte, o Options) []byte {
	dst = append(dst, 0, 0, 0, 13, byte(Negotiate))
	dst = binary.BigEndian.AppendUint32(dst, o.Version)
	dst = binary.BigEndian.AppendUint32(dst, uint32(o.Actions))
	return binary.BigEndian.AppendUint32(dst, uint32(o.Steps))
}

// ParseOptions reads a negotiation's data. What may follow, the macros that a filter asks for, is
// passed over.
func ParseOptions(data []byte) (Options, error) {
	if len(data) < 12 {
		return Options{}, fmt.Errorf("%w: negotiation of %d bytes", ErrMalformed, len(data))
	}
	return Options{
		Version: binary.BigEndian.Uint32(data), Actions: Actions(binary.BigEndian.Uint32(data[4:])), Steps: Steps(binary.BigEndian.Uint32(data[8:])),
	}, nil
}

// Family is a kind of address in Connect.
type Family byte

// The families.
const (
	FamilyUnknown Family = 'U'
	FamilyUnix    Family = 'L'
	FamilyIPv4    Family = '4'
	FamilyIPv6    Family = '6'
)

// AppendConnect adds a Connect: the client's name, and where it comes from.
func AppendConnect(dst []byte, host string, f Family, port uint16, address string) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0, byte(Connect))
	dst = append(appendString(dst, host), byte(f))
	if f != FamilyUnknown {
		dst = binary.BigEndian.AppendUint16(dst, port)
		dst = appendString(dst, address)
	}
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}

// AppendMacros adds the macros for a command: names and values in turn. Names of more than a letter
// have braces.
func AppendMacros(dst []byte, c Code, pairs ...string) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0, byte(Macros), byte(c))
	for _, s := range pairs {
		dst = appendString(dst, s)
	}
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}

// Next takes a packet from the front of b: n is its length, 0 while it is not whole.
func Next(b []byte) (c Code, data []byte, n int, err error) {
	if len(b) < 5 {
		return 0, nil, 0, sizeError(b)
	}
	size := int(binary.BigEndian.Uint32(b))
	if err := sizeError(b); err != nil {
		return 0, nil, 0, err
	}
	if len(b) < 4+size {
		return 0, nil, 0, nil
	}
	return Code(b[4]), b[5 : 4+size], 4 + size, nil
}

func sizeError(b []byte) error {
	if len(b) < 4 {
		return nil
	}
	if size := binary.BigEndian.Uint32(b); size == 0 || size > MaxPacket {
		return fmt.Errorf("%w: %d bytes", ErrMalformed, size)
	}
	return nil
}

// Strings parts data into its strings. The last one may lack its NUL.
func Strings(data []byte) []string {
	var out []string
	for len(data) > 0 {
		i := 0
		for i < len(data) && data[i] != 0 {
			i++
		}
		out = append(out, string(data[:i]))
		data = data[min(i+1, len(data)):]
	}
	return out
}

// Answer is what a filter said. Index, Name and Value are of headers; Value alone is an address, a
// reply's text or a reason; Body is a piece of a new body, in the packet's memory.
type Answer struct {
	Code        Code
	Index       uint32
	Name, Value string
	Body        []byte
}

// ParseAnswer reads what a filter said after the negotiation.
func ParseAnswer(c Code, data []byte) (Answer, error) {
	a := Answer{Code: c}
	switch c {
	case Continue, Accept, Reject, TempFail, Discard, Skip, Progress, ConnFail, Shutdown:
		return a, nil
	case ReplaceBody:
		a.Body = data
		return a, nil
	case InsertHeader, ChangeHeader:
		if len(data) < 4 {
			return a, fmt.Errorf("%w: header without a place", ErrMalformed)
		}
		a.Index, data = binary.BigEndian.Uint32(data), data[4:]
		fallthrough
	case AddHeader:
		list := Strings(data)
		if len(list) == 0 || len(list) > 2 || list[0] == "" {
			return a, fmt.Errorf("%w: header", ErrMalformed)
		}
		if a.Name = list[0]; len(list) == 2 {
			a.Value = list[1]
		}
		return a, nil
	case AddRcpt, AddRcptArgs, DeleteRcpt, ChangeFrom, ReplyCode, Quarantine:
		list := Strings(data)
		if len(list) == 0 {
			return a, fmt.Errorf("%w: %q without a value", ErrMalformed, byte(c))
		}
		a.Value = list[0]
		return a, nil
	}
	return a, fmt.Errorf("%w: code %q", ErrMalformed, byte(c))
}

// Append prints an answer as a filter says it.
func (a Answer) Append(dst []byte) []byte {
	switch a.Code {
	case ReplaceBody:
		return Append(dst, a.Code, a.Body)
	case AddHeader:
		return AppendStrings(dst, a.Code, a.Name, a.Value)
	case InsertHeader, ChangeHeader:
		var index [4]byte
		binary.BigEndian.PutUint32(index[:], a.Index)
		return Append(dst, a.Code, index[:], appendString(appendString(nil, a.Name), a.Value))
	case AddRcpt, AddRcptArgs, DeleteRcpt, ChangeFrom, ReplyCode, Quarantine:
		return AppendStrings(dst, a.Code, a.Value)
	}
	return Append(dst, a.Code)
}
