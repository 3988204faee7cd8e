package jmapd

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"hash"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/jmap"
)

// maxDataSources bounds the data sources of one blob in Blob/upload. The blob's size has the limit of any upload.
const maxDataSources = 64

// digests are the algorithms of Blob/get, with their names (RFC 9404 section 4.2, RFC 5843).
var digests = []struct {
	name string
	make func() hash.Hash
}{{"sha", sha1.New}, {"sha-256", sha256.New}, {"sha-512", sha512.New}}

// appendBlobCapability appends the account's blob capabilities.
//
// Implements: RFC 9404 §3.1 the capability
func (s *Server) appendBlobCapability(dst []byte) []byte {
	o := jmap.NewWriter(dst)
	o.Uint("maxSizeBlobSet", uint64(s.opt.Limits.Upload))
	o.Uint("maxDataSources", maxDataSources)
	o.Strings("supportedTypeNames", "Mailbox", "Thread", "Email")
	names := make([]string, len(digests))
	for i, d := range digests {
		names[i] = d.name
	}
	o.Strings("supportedDigestAlgorithms", names...)
	return o.End()
}

// blobUpload answers Blob/upload.
//
// Implements: RFC 9404 §4.1 Blob/upload
func blobUpload(c *call) error {
	if err := c.arguments(false, "create"); err != nil {
		return err
	}
	s := &set{c: c}
	if err := s.creations("create"); err != nil {
		return err
	}
	if c.caller.Database == 0 {
		return &jmap.Error{Type: "accountNotSupportedByMethod"}
	}
	for i := range s.create {
		p := &s.create[i]
		id, size, kind, err := c.uploadOne(p.object)
		if err != nil {
			s.notCreated = append(s.notCreated, failure{p.id, err})
			continue
		}
		o := jmap.NewWriter(nil)
		o.Text("id", id)
		o.Text("type", kind)
		o.Uint("size", uint64(size))
		s.made(p.id, id, o.End())
	}
	o := jmap.NewWriter(c.out)
	o.Text("accountId", c.account.ID)
	o.Raw("oldState", "null")
	c.appendBoth(&o, "created", s.created, "notCreated", s.notCreated)
	c.out = o.End()
	return nil
}

// uploadOne makes a blob from its data sources.
func (c *call) uploadOne(v *jmap.Value) (id string, size int, kind string, err error) {
	data := v.Get("data")
	kind, isText := v.Get("type").Text()
	var bad []string
	for i := range v.Len() {
		if n := v.Name(i); n != "data" && n != "type" {
			bad = append(bad, n)
		}
	}
	if data.Kind() != jmap.Array || data.Len() == 0 {
		bad = append(bad, "data")
	}
	if !isText && !v.Get("type").IsNull() || len(kind) > 255 || strings.ContainsAny(kind, "\r\n\x00") {
		bad = append(bad, "type")
	}
	if bad != nil {
		return "", 0, "", badProperties("", bad...)
	}
	if kind == "" {
		kind = "application/octet-stream"
	}
	if data.Len() > maxDataSources {
		return "", 0, "", &jmap.Error{Type: "tooLarge", Description: "There are more data sources than maxDataSources."}
	}
	content, err := c.assemble(data)
	if err != nil {
		return "", 0, "", err
	}
	defer c.mem.drop(int64(cap(content)))
	ref, err := c.s.keep(c.ctx, c.caller, content, kind)
	return ref.String(), len(content), kind, err
}

// assemble concatenates data sources. It knows, bounds and reserves their size before it reads the first octet. The
// caller drops as many bytes as the capacity of content.
func (c *call) assemble(data *jmap.Value) (content []byte, err error) {
	sources := make([]source, 0, data.Len())
	defer func() {
		for i := range sources {
			sources[i].close()
		}
	}()
	size := int64(0)
	for i := range data.Len() {
		src, err := c.source(data.At(i))
		if err != nil {
			return nil, err
		}
		sources = append(sources, src)
		if size += src.size; size > c.s.opt.Limits.Upload {
			return nil, &jmap.Error{Type: "tooLarge", LimitName: "maxSize", Limit: uint64(c.s.opt.Limits.Upload)}
		}
	}
	if err := c.hold(size); err != nil {
		return nil, err
	}
	content = make([]byte, 0, size)
	for i := range sources {
		if content, err = sources[i].append(content); err != nil {
			c.mem.drop(size)
			return nil, err
		}
	}
	return content, nil
}

// source is a data source of Blob/upload: text, base64, or a range of another blob.
type source struct {
	text string // plain, or base64 if base is set
	base bool
	blob *blob
	from int64
	size int64 // octets that append appends
}

func (s *source) close() {
	if s.blob != nil {
		s.blob.close()
	}
}

func (s *source) append(dst []byte) ([]byte, error) {
	switch {
	case s.blob != nil:
		return s.blob.read(dst, s.from, s.size)
	case s.base:
		at := len(dst)
		n, err := io.ReadFull(base64.NewDecoder(base64.StdEncoding, strings.NewReader(s.text)), dst[at:at+int(s.size)])
		return dst[:at+n], err
	}
	return append(dst, s.text...), nil
}

// errSource is the error for a malformed data source.
var errSource = badProperties("A data source is a text, base64, or a blob with offset and length.", "data")

// source parses and checks a data source.
func (c *call) source(v *jmap.Value) (source, error) {
	text, isText := v.Get("data:asText").Text()
	encoded, isBase64 := v.Get("data:asBase64").Text()
	id, isBlob := v.Get("blobId").Text()
	kinds := 0
	for _, is := range []bool{isText, isBase64, isBlob} {
		if is {
			kinds++
		}
	}
	switch {
	case kinds != 1 || !isBlob && v.Len() != 1:
		return source{}, errSource
	case isText:
		return source{text: text, size: int64(len(text))}, nil
	case isBase64:
		n, ok := decodedLen(encoded)
		if !ok {
			return source{}, errSource
		}
		return source{text: encoded, base: true, size: n}, nil
	}
	b, err := c.openBlob(c.account, id)
	if errors.Is(err, errNoBlob) {
		return source{}, &jmap.Error{Type: "blobNotFound", NotFound: []string{id}}
	}
	if err != nil {
		return source{}, err
	}
	from, to, err := piece(v, b.size)
	if err != nil || to > b.size {
		b.close()
		return source{}, errSource
	}
	return source{blob: b, from: from, size: to - from}, nil
}

// decodedLen returns the number of octets that base64 text decodes to, and false if it is malformed.
func decodedLen(s string) (int64, bool) {
	n, err := io.Copy(io.Discard, base64.NewDecoder(base64.StdEncoding, strings.NewReader(s)))
	return n, err == nil
}

// piece reads offset and length. Without a length the range ends at the end of the blob. A length above the largest Int
// (RFC 8620 section 1.3) also reaches past the end.
func piece(v *jmap.Value, size int64) (from, to int64, err error) {
	from, ok := unsigned(v.Get("offset"), 0)
	if !ok {
		return 0, 0, invalid("offset is no UnsignedInt")
	}
	if v.Get("length").IsNull() {
		return from, max(from, size), nil
	}
	n, ok := unsigned(v.Get("length"), 0)
	if !ok {
		return 0, 0, invalid("length is no UnsignedInt")
	}
	if n > math.MaxInt64-from {
		return from, math.MaxInt64, nil
	}
	return from, from + n, nil
}

// unsigned reads an UnsignedInt. It returns def for null.
func unsigned(v *jmap.Value, def int64) (int64, bool) {
	if v.IsNull() {
		return def, true
	}
	n, ok := v.Int()
	return n, ok && n >= 0
}

// blobGet answers Blob/get.
//
// Implements: RFC 9404 §4.2 Blob/get
func blobGet(c *call) error {
	g, err := c.getArguments(false, nil, "offset", "length")
	if err != nil {
		return err
	}
	if g.all {
		return invalid("ids is missing")
	}
	known := []string{"data", "data:asText", "data:asBase64", "size"}
	for _, d := range digests {
		known = append(known, "digest:"+d.name)
	}
	if err := g.only(append(known, "id")...); err != nil {
		return err
	}
	if !g.some {
		g.properties, g.some = []string{"data", "size"}, true
	}
	g.begin("")
	for _, id := range g.ids {
		b, err := c.openBlob(c.account, id)
		if errors.Is(err, errNoBlob) {
			g.miss(id)
			continue
		}
		if err != nil {
			return err
		}
		g.next()
		if err := c.appendBlob(id, b, &g); err != nil {
			return err
		}
		b.close()
		if err := c.settle(); err != nil {
			return err
		}
	}
	g.end()
	return nil
}

func (c *call) appendBlob(id string, b *blob, g *get) error {
	from, to, err := piece(c.args, b.size)
	if err != nil {
		return err
	}
	truncated := to > b.size || from > b.size
	from, to = min(from, b.size), min(to, b.size)
	var content []byte
	if slices.ContainsFunc(g.properties, func(p string) bool { return p != "size" && p != "id" }) {
		if to-from > int64(c.s.opt.Limits.Response)/2 {
			return tooLarge("The blob is larger than a response: download it.")
		}
		if err := c.hold(to - from); err != nil {
			return err
		}
		defer c.mem.drop(to - from)
		if content, err = b.read(make([]byte, 0, to-from), from, to-from); err != nil {
			return err
		}
		if err := c.room(blobDataLen(content, g)); err != nil {
			return err
		}
	}
	o := jmap.NewWriter(c.out)
	o.Text("id", id)
	if content != nil && appendBlobData(&o, content, g) {
		o.Bool("isEncodingProblem", true)
	}
	if truncated {
		o.Bool("isTruncated", true)
	}
	if g.wants("size") {
		o.Uint("size", uint64(b.size))
	}
	c.out = o.End()
	return nil
}

// blobDataLen returns an upper bound of the octets that appendBlobData appends, with names and digests.
func blobDataLen(content []byte, g *get) int {
	n, isText := 512, utf8.Valid(content)
	has := func(p string) bool { return slices.Contains(g.properties, p) }
	if isText && (has("data") || has("data:asText")) {
		n += jmap.QuotedLenBytes(content)
	}
	if has("data:asBase64") || has("data") && !isText {
		n += base64.StdEncoding.EncodedLen(len(content))
	}
	return n
}

// appendBlobData appends the requested data and digests of a blob. It reports whether text was requested but the
// content is not UTF-8.
func appendBlobData(o *jmap.Writer, content []byte, g *get) (problem bool) {
	isText := utf8.Valid(content)
	has := func(p string) bool { return slices.Contains(g.properties, p) }
	if has("data:asText") || has("data") && isText {
		if isText {
			o.Name("data:asText")
			o.B = jmap.AppendBytes(o.B, content)
		} else {
			o.Raw("data:asText", "null")
		}
	}
	if has("data:asBase64") || has("data") && !isText {
		o.Name("data:asBase64")
		o.B = append(base64.StdEncoding.AppendEncode(append(o.B, '"'), content), '"')
	}
	for _, d := range digests {
		if p := "digest:" + d.name; has(p) {
			h := d.make()
			_, _ = h.Write(content)
			o.Text(p, base64.StdEncoding.EncodeToString(h.Sum(nil)))
		}
	}
	return !isText && (has("data") || has("data:asText"))
}

// blobLookup answers Blob/lookup, which finds the objects that refer to a blob.
//
// Implements: RFC 9404 §4.3 Blob/lookup
func blobLookup(c *call) error {
	if err := c.arguments(false, "typeNames", "ids"); err != nil {
		return err
	}
	types, some, err := c.list("typeNames")
	if err != nil {
		return err
	}
	if !some {
		return invalid("typeNames is missing")
	}
	for _, t := range types {
		if !slices.Contains([]string{"Mailbox", "Thread", "Email"}, t) {
			return &jmap.Error{Type: "unknownDataType", Description: "There is no type " + t[:min(len(t), 100)] +
				" here that refers to blobs."}
		}
	}
	ids, err := c.needIDs("ids", "maxObjectsInGet")
	if err != nil {
		return err
	}
	g := get{c: c, ids: ids}
	g.begin("")
	err = c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		for _, id := range g.ids {
			ref, ok := parseBlobRef(id)
			var m *mailbox.Email
			if ok && ref.letter != letterUpload {
				var err error
				if m, err = d.EmailOf(ref.unid); err != nil && err != mailbox.ErrNoMessage {
					return err
				}
			}
			if !ok || m == nil && ref.letter != letterUpload {
				g.miss(id)
				continue
			}
			g.next()
			c.out = appendMatches(c.out, id, m, types)
		}
		return nil
	})
	if err != nil {
		return err
	}
	g.end()
	return nil
}

func appendMatches(dst []byte, id string, m *mailbox.Email, types []string) []byte {
	o := jmap.NewWriter(dst)
	o.Text("id", id)
	o.Name("matchedIds")
	in := jmap.NewWriter(o.B)
	for _, t := range types {
		in.Name(t)
		switch {
		case m == nil:
			in.B = append(in.B, "[]"...)
		case t == "Email":
			in.B = appendIDs(in.B, letterEmail, []note.UNID{m.UNID()})
		case t == "Thread":
			in.B = appendIDs(in.B, letterThread, []note.UNID{m.Thread()})
		default:
			in.B = appendIDs(in.B, letterFolder, slices.Collect(m.Folders))
		}
	}
	o.B = in.End()
	return o.End()
}

// blobCopy answers Blob/copy. Uploads belong to the caller in all accounts and need no copy. Other blobs are uploaded
// again.
//
// Implements: RFC 8620 §6.3 Blob/copy
func blobCopy(c *call) error {
	from, err := c.twoAccounts("blobIds")
	if err != nil {
		return err
	}
	ids, err := c.needIDs("blobIds", "maxObjectsInSet")
	if err != nil {
		return err
	}
	var copied []entry
	var failed []failure
	for _, id := range ids {
		to, err := c.copyBlob(from, id)
		if err != nil {
			failed = append(failed, failure{id, err})
			continue
		}
		copied = append(copied, entry{id, jmap.AppendString(nil, to)})
	}
	o := jmap.NewWriter(c.out)
	o.Text("fromAccountId", from.ID)
	o.Text("accountId", c.account.ID)
	c.appendBoth(&o, "copied", copied, "notCopied", failed)
	c.out = o.End()
	return nil
}

func (c *call) copyBlob(from *Account, id string) (string, error) {
	b, err := c.openBlob(from, id)
	if errors.Is(err, errNoBlob) {
		return "", &jmap.Error{Type: "notFound"}
	}
	if err != nil {
		return "", err
	}
	defer b.close()
	if ref, _ := parseBlobRef(id); ref.letter == letterUpload || from.ID == c.account.ID {
		return id, nil
	}
	if b.size > c.s.opt.Limits.Upload || c.caller.Database == 0 {
		return "", &jmap.Error{Type: "tooLarge"}
	}
	if err := c.hold(b.size); err != nil {
		return "", err
	}
	defer c.mem.drop(b.size)
	content, err := b.all()
	if err != nil {
		return "", err
	}
	kind := b.kind
	if kind == "" {
		kind = "application/octet-stream"
	}
	ref, err := c.s.keep(c.ctx, c.caller, content, kind)
	return ref.String(), err
}
