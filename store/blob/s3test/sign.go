package s3test

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// AWS Signature Version 4, as the specification of S3 describes it: "Authenticating Requests: Using the Authorization
// Header", and "Signature Calculations for the Authorization Header: Transferring Payload in Multiple Chunks".

const (
	algorithm = "AWS4-HMAC-SHA256"
	unsigned  = "UNSIGNED-PAYLOAD"
	streaming = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
)

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = io.WriteString(h, text)
	return h.Sum(nil)
}

// signature is the verified signature of a request.
type signature struct {
	key          []byte
	date, scope  string
	hex, payload string
}

// verify checks the signature of a request, and returns its body.
func verify(r *http.Request) ([]byte, *fail) {
	s, f := signatureOf(r)
	if f != nil {
		return nil, f
	}
	body, f := readAll(r)
	if f != nil {
		return nil, f
	}
	if s.payload == streaming {
		return s.chunks(body, r.Header.Get("X-Amz-Decoded-Content-Length"))
	}
	if s.payload == unsigned && (r.Header.Get("Content-Md5") != "" || len(body) == 0) {
		return body, nil // checkMD5 checks it
	}
	if s.payload != sum(body) {
		return nil, &fail{http.StatusBadRequest, "XAmzContentSHA256Mismatch", r.URL.RawQuery + " " + s.payload}
	}
	return body, nil
}

func signatureOf(r *http.Request) (*signature, *fail) {
	denied := func(why string) (*signature, *fail) {
		return nil, &fail{http.StatusForbidden, "SignatureDoesNotMatch", why}
	}
	fields := map[string]string{}
	text, ok := strings.CutPrefix(r.Header.Get("Authorization"), algorithm+" ")
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		fields[name] = value
	}
	owner, scope, _ := strings.Cut(fields["Credential"], "/")
	date := r.Header.Get("X-Amz-Date")
	if !ok || owner != access || len(date) != 16 || scope != date[:8]+"/"+region+"/s3/aws4_request" {
		return denied("credential " + fields["Credential"])
	}
	s := &signature{date: date, scope: scope, hex: fields["Signature"], payload: r.Header.Get("X-Amz-Content-Sha256")}
	s.key = []byte("AWS4" + secret)
	for part := range strings.SplitSeq(scope, "/") {
		s.key = mac(s.key, part)
	}
	names := strings.Split(fields["SignedHeaders"], ";")
	if !slices.Contains(names, "host") || !slices.Contains(names, "x-amz-content-sha256") {
		return denied("headers that are not signed")
	}
	var lines strings.Builder
	for _, name := range names {
		value := r.Header.Get(name)
		if name == "host" {
			value = r.Host
		}
		fmt.Fprintf(&lines, "%s:%s\n", name, strings.TrimSpace(value))
	}
	query := strings.ReplaceAll(r.URL.Query().Encode(), "+", "%20")
	request := strings.Join([]string{r.Method, encodePath(r.URL.Path), query, lines.String(), fields["SignedHeaders"],
		s.payload}, "\n")
	if s.sign(algorithm+"\n"+date+"\n"+scope+"\n"+sum([]byte(request))) != s.hex {
		return denied("of " + request)
	}
	return s, nil
}

func (s *signature) sign(text string) string { return hex.EncodeToString(mac(s.key, text)) }

// encodePath encodes a path: everything but unreserved characters and slashes.
func encodePath(path string) string {
	return strings.ReplaceAll(strings.ReplaceAll(url.QueryEscape(path), "+", "%20"), "%2F", "/")
}

// chunks decodes a body whose chunks are signed, each with the signature of the one before it.
func (s *signature) chunks(body []byte, length string) ([]byte, *fail) {
	bad := func(why string) ([]byte, *fail) {
		return nil, &fail{http.StatusForbidden, "SignatureDoesNotMatch", why}
	}
	r := bufio.NewReader(bytes.NewReader(body))
	last := s.hex
	var out []byte
	for {
		line, err := r.ReadString('\n')
		digits, have, ok := strings.Cut(strings.TrimSuffix(line, "\r\n"), ";chunk-signature=")
		size, sizeErr := strconv.ParseInt(digits, 16, 32)
		if err != nil || !ok || sizeErr != nil || size < 0 || size > int64(len(body)) {
			return bad("chunk " + line)
		}
		data := make([]byte, size+2)
		if _, err := io.ReadFull(r, data); err != nil {
			return bad("chunk is cut off")
		}
		data = data[:size]
		want := s.sign(strings.Join([]string{algorithm + "-PAYLOAD", s.date, s.scope, last, sum(nil), sum(data)}, "\n"))
		if have != want {
			return bad("chunk")
		}
		if out, last = append(out, data...), have; size == 0 {
			break
		}
	}
	if strconv.Itoa(len(out)) != length {
		return bad("X-Amz-Decoded-Content-Length " + length)
	}
	return out, nil
}
