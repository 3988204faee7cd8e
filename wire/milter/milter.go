// Package milter implements the packet format of the milter protocol, version 6, with which mail servers query filters.
// A packet is a length, a letter and data. The protocol has no published standard; its definition is Sendmail's
// libmilter, which filters use.
package milter

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Version is the protocol version.
const Version = 6

// MaxPacket is the maximum size of a packet that is read: a chunk of a body with its overhead.
const MaxPacket = 1<<20 + 1024

// MaxChunk is the maximum size of a body chunk in one packet that every filter accepts.
const MaxChunk = 65535

// ErrMalformed means that a packet is not valid.
var ErrMalformed = errors.New("milter: malformed packet")

// Code is the letter of a packet.
type Code byte

// Codes of packets from a server.
const (
	Negotiate Code = 'O' // from both sides
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

// Codes of packets from a filter.
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

// Actions is a set of changes that a filter may make to a message.
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

// Steps is a set of steps that a filter doesn't want to see, or doesn't answer.
type Steps uint32

// The steps, and options in the same field.
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
	RejectedRcpt // also send rejected recipients
	NoReplyConnect
	NoReplyHelo
	NoReplyMail
	NoReplyRcpt
	NoReplyData
	NoReplyUnknown
	NoReplyEndHeader
	NoReplyBody
	LeadingSpace // header values keep the blank after the colon
)

// Options is one side of a negotiation: the server's offer, or the filter's choice from it.
type Options struct {
	Version uint32
	Actions Actions
	Steps   Steps
}

// Append appends a packet.
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

// AppendStrings appends a packet with NUL-terminated strings. A NUL inside a string would end it and is omitted.
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

// AppendOptions appends a negotiation packet.
func AppendOptions(dst []byte, o Options) []byte {
	dst = append(dst, 0, 0, 0, 13, byte(Negotiate))
	dst = binary.BigEndian.AppendUint32(dst, o.Version)
	dst = binary.BigEndian.AppendUint32(dst, uint32(o.Actions))
	return binary.BigEndian.AppendUint32(dst, uint32(o.Steps))
}

// ParseOptions parses the data of a negotiation. It ignores the filter's list of requested macros that may follow.
func ParseOptions(data []byte) (Options, error) {
	if len(data) < 12 {
		return Options{}, fmt.Errorf("%w: negotiation of %d bytes", ErrMalformed, len(data))
	}
	return Options{
		Version: binary.BigEndian.Uint32(data), Actions: Actions(binary.BigEndian.Uint32(data[4:])),
		Steps: Steps(binary.BigEndian.Uint32(data[8:])),
	}, nil
}

// Family is an address family in Connect.
type Family byte

// The families.
const (
	FamilyUnknown Family = 'U'
	FamilyUnix    Family = 'L'
	FamilyIPv4    Family = '4'
	FamilyIPv6    Family = '6'
)

// AppendConnect appends a Connect packet with the client's name and address.
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

// AppendMacros appends the macros for a command. pairs alternates names and values. Names with more than one letter
// must have braces.
func AppendMacros(dst []byte, c Code, pairs ...string) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0, byte(Macros), byte(c))
	for _, s := range pairs {
		dst = appendString(dst, s)
	}
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}

// Next parses the packet at the start of b. n is its length, 0 if it is not complete.
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

// Strings splits data into its strings. The NUL after the last string is optional.
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

// Answer is a packet from a filter. Index, Name and Value belong to headers. Value alone is an address, the text of a
// reply or a reason. Body is a piece of a new body; it shares the packet's memory.
type Answer struct {
	Code        Code
	Index       uint32
	Name, Value string
	Body        []byte
}

// ParseAnswer parses a filter's packet after the negotiation.
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

// Append appends the answer as a packet.
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
