package jmap

// Writer prints an object member by member. Names are printed without escapes, which the names of the protocol do not
// need.
type Writer struct {
	// B is the output so far. To print a value for which there is no method, call Name and append to B.
	B     []byte
	later bool // needs a comma before the next member
}

// NewWriter starts an object after dst.
func NewWriter(dst []byte) Writer { return Writer{B: append(dst, '{')} }

// Name starts a member.
func (w *Writer) Name(n string) {
	if w.later {
		w.B = append(w.B, ',')
	}
	w.later = true
	w.B = append(append(append(w.B, '"'), n...), '"', ':')
}

// Key is Name for any string. It escapes the name.
func (w *Writer) Key(n string) {
	if w.later {
		w.B = append(w.B, ',')
	}
	w.later = true
	w.B = append(AppendString(w.B, n), ':')
}

// Text appends a string member.
func (w *Writer) Text(n, s string) { w.Name(n); w.B = AppendString(w.B, s) }

// Uint appends an UnsignedInt member.
func (w *Writer) Uint(n string, v uint64) { w.Name(n); w.B = AppendUint(w.B, v) }

// Bool appends a boolean member.
func (w *Writer) Bool(n string, on bool) { w.Name(n); w.B = AppendBool(w.B, on) }

// Raw appends a member whose value is JSON text.
func (w *Writer) Raw(n, json string) { w.Name(n); w.B = append(w.B, json...) }

// Strings appends a member that is an array of strings.
func (w *Writer) Strings(n string, list ...string) { w.Name(n); w.B = AppendStrings(w.B, list) }

// Object appends a member that is an object. fn prints its members.
func (w *Writer) Object(n string, fn func(*Writer)) {
	w.Name(n)
	in := NewWriter(w.B)
	fn(&in)
	w.B = in.End()
}

// End ends the object and returns the output.
func (w *Writer) End() []byte { return append(w.B, '}') }

// Refer appends an argument whose value is a reference to the response of an earlier call.
//
// Implements: RFC 8620 §3.7 References to previous method results, as a client
func (w *Writer) Refer(n string, r Reference) {
	w.Name("#" + n)
	w.B = r.Append(w.B)
}
