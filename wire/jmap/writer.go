package jmap

// Writer prints an object member by member, with commas between. Names are printed as they are: those of the protocol
// need no escapes.
type Writer struct {
	// B is what is printed so far; a value that no method prints is appended behind Name.
	B     []byte
	later bool // a member stands before the next one
}

// NewWriter begins an object behind dst.
func NewWriter(dst []byte) Writer { return Writer{B: append(dst, '{')} }

// Name begins a member.
func (w *Writer) Name(n string) {
	if w.later {
		w.B = append(w.B, ',')
	}
	w.later = true
	w.B = append(append(append(w.B, '"'), n...), '"', ':')
}

// Key is Name of any string.
func (w *Writer) Key(n string) {
	if w.later {
		w.B = append(w.B, ',')
	}
	w.later = true
	w.B = append(AppendString(w.B, n), ':')
}

// Text prints a member that is a string.
func (w *Writer) Text(n, s string) { w.Name(n); w.B = AppendString(w.B, s) }

// Uint prints a member that is an UnsignedInt.
func (w *Writer) Uint(n string, v uint64) { w.Name(n); w.B = AppendUint(w.B, v) }

// Bool prints a member that is a truth value.
func (w *Writer) Bool(n string, on bool) { w.Name(n); w.B = AppendBool(w.B, on) }

// Raw prints a member that is JSON already.
func (w *Writer) Raw(n, json string) { w.Name(n); w.B = append(w.B, json...) }

// Strings prints a member that is a list of strings.
func (w *Writer) Strings(n string, list ...string) { w.Name(n); w.B = AppendStrings(w.B, list) }

// Object prints a member that is an object, whose members fn prints.
func (w *Writer) Object(n string, fn func(*Writer)) {
	w.Name(n)
	in := NewWriter(w.B)
	fn(&in)
	w.B = in.End()
}

// End ends the object, and gives what is printed.
func (w *Writer) End() []byte { return append(w.B, '}') }

// Refer prints an argument whose value stands in the response to an earlier call.
//
// Implements: RFC 8620 §3.7 References to previous method results, as a client
func (w *Writer) Refer(n string, r Reference) {
	w.Name("#" + n)
	w.B = r.Append(w.B)
}
