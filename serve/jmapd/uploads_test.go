package jmapd

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// upload uploads a blob and returns its id.
func (w *world) upload(who, content string) string {
	w.t.Helper()
	out := w.do(who, "POST", "/jmap/upload/"+w.account(who)+"/", "message/rfc822", []byte(content))
	if out.Code != http.StatusCreated {
		w.t.Errorf("upload: %d %s", out.Code, out.Body)
		return ""
	}
	var answer struct{ BlobID string }
	w.ok(json.Unmarshal(out.Body.Bytes(), &answer))
	return answer.BlobID
}

// imports makes an Email from a blob.
func (w *world) imports(who, blob, inbox string) {
	w.t.Helper()
	request := `{"using":["urn:ietf:params:jmap:core","urn:ietf:params:jmap:mail"],"methodCalls":[["Email/import",` +
		`{"accountId":"` + w.account(who) +
		`","emails":{"k":{"blobId":"` + blob + `","mailboxIds":{"` + inbox + `":true}}}},"0"]]}`
	out := w.do(who, "POST", PathAPI, "application/json", []byte(request))
	if !strings.Contains(out.Body.String(), `"created":{"k":{`) {
		w.t.Errorf("import of %s: %d %s", blob, out.Code, out.Body)
	}
}

// inbox returns the id of the mailbox with the role inbox.
func (w *world) inbox(who string) string {
	w.t.Helper()
	out := w.do(who, "POST", PathAPI, "application/json",
		[]byte(`{"using":["urn:ietf:params:jmap:core","urn:ietf:params:jmap:mail"],`+
			`"methodCalls":[["Mailbox/query",{"accountId":"`+
			w.account(who)+`","filter":{"role":"inbox"}},"0"]]}`))
	_, rest, _ := strings.Cut(out.Body.String(), `"ids":["`)
	id, _, ok := strings.Cut(rest, `"`)
	if !ok {
		w.t.Fatalf("no inbox: %s", out.Body)
	}
	return id
}

// there reports whether a blob can be downloaded.
func (w *world) there(who, blob string) bool {
	w.t.Helper()
	return w.do(who, "GET", "/jmap/download/"+w.account(who)+"/"+blob+"/x", "", nil).Code == http.StatusOK
}

// TestUploadsUsed imports 2,000 messages in a row. None may be rejected, and an unused upload must remain.
func TestUploadsUsed(t *testing.T) {
	w := open(t, settings{Limits: Limits{Uploads: 200 << 10, UploadAge: 24 * time.Hour, Upload: 64 << 10}})
	inbox := w.inbox("alice")
	waiting := w.upload("alice", "It waits.")
	last := ""
	for i := range 2000 {
		last = w.upload("alice", simple(fmt.Sprint("message ", i))+strings.Repeat("x", 300))
		w.imports("alice", last, inbox)
		if t.Failed() {
			t.Fatalf("at message %d", i)
		}
	}
	if !w.there("alice", waiting) {
		t.Error("uploads that are used have pushed out one that is not")
	}
	if !w.there("alice", last) {
		t.Error("an upload is gone as soon as it is used: a draft cannot be written again")
	}
}

// TestUploadsWaiting uploads 2,000 blobs that nothing uses, four at a time. None may be rejected, the newest must
// exist, and their total size must stay within its bound.
func TestUploadsWaiting(t *testing.T) {
	const room, size = 100 << 10, 1 << 10
	w := open(t, settings{Limits: Limits{Uploads: room, Upload: 1 << 20}})
	var all sync.Map
	var wg sync.WaitGroup
	for k := range 4 {
		wg.Go(func() {
			for i := range 500 {
				all.Store(w.upload("alice", fmt.Sprintf("%4d %d %s", i, k, strings.Repeat("x", size-7))), true)
			}
		})
	}
	wg.Wait()
	kept := 0
	all.Range(func(id, _ any) bool {
		if w.there("alice", id.(string)) {
			kept++
		}
		return true
	})
	if kept < 50 || kept*size > room {
		t.Errorf("%d blobs of 1 KB are kept where 100 KB are allowed", kept)
	}
	newest := w.upload("alice", strings.Repeat("y", room+1))
	if !w.there("alice", newest) {
		t.Error("an upload that is larger than the room for all is not there")
	}
}
