//go:build unix

package jmapd

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"doublet/note"
)

// BenchmarkUpload uploads blobs of 4 KB to a mail file that keeps others already: some that wait, and some that
// messages use. Messages use the new ones at once.
func BenchmarkUpload(b *testing.B) {
	for _, kept := range []struct{ waiting, used int }{{0, 10}, {0, 128}, {450, 128}} {
		b.Run(fmt.Sprintf("waiting=%d,used=%d", kept.waiting, kept.used), func(b *testing.B) {
			w := open(b, settings{})
			uploads := w.file("alice").Uploads()
			for i := range kept.waiting + kept.used {
				id := w.upload("alice", fmt.Sprint("kept ", i))
				if ref, _ := parseBlobRef(id); i >= kept.waiting {
					uploads.Use([]note.UNID{ref.unid})
				}
			}
			content := strings.Repeat("0123456789abcdef", 256)
			b.ReportAllocs()
			b.ResetTimer()
			n, before := 0, processor()
			for b.Loop() {
				n++
				ref, _ := parseBlobRef(w.upload("alice", fmt.Sprint(n, content)))
				uploads.Use([]note.UNID{ref.unid})
			}
			b.ReportMetric(float64(processor()-before)/float64(n)/1000, "CPU-µs/op")
		})
	}
}

// BenchmarkSend sends messages of 4 KB as R6Mail does over JMAP: it uploads a message, then imports it as a draft,
// submits it and destroys the draft in one request.
func BenchmarkSend(b *testing.B) {
	w := open(b, settings{})
	a := &actor{&operator{w: w, rng: rand.New(rand.NewPCG(1, 1))}}
	account, drafts, identity := w.account("alice"), a.folderID("Drafts"), a.pick("Identity", nil)
	text := strings.Repeat("The quick brown fox jumps over the lazy dog.\n", 90)
	b.ReportAllocs()
	b.ResetTimer()
	n, before := 0, processor()
	for b.Loop() {
		n++
		raw := fmt.Sprintf("From: alice@example.com\r\nTo: bob@example.com\r\nSubject: number %d\r\n"+
			"Message-ID: <b%d@example.com>\r\nDate: Mon, 5 Jan 2026 09:00:00 +0100\r\n\r\n%s", n, n, text)
		blob := w.upload("alice", raw)
		request := `{"using":["urn:ietf:params:jmap:core","urn:ietf:params:jmap:mail",` +
			`"urn:ietf:params:jmap:submission"],"methodCalls":[["Email/import",{"accountId":"` + account +
			`","emails":{"m":{"blobId":"` + blob + `","mailboxIds":{"` + drafts +
			`":true},"keywords":{"$draft":true,"$seen":true}}}},"0"],["EmailSubmission/set",{"accountId":"` + account +
			`","create":{"s":{"identityId":"` + identity + `","emailId":"#m","envelope":{"mailFrom":` +
			`{"email":"alice@example.com","parameters":null},"rcptTo":[{"email":"bob@example.com",` +
			`"parameters":null}]}}},"onSuccessDestroyEmail":["#s"]},"1"]]}`
		out := w.do("alice", "POST", PathAPI, "application/json", []byte(request))
		if out.Code != http.StatusOK || strings.Contains(out.Body.String(), "notCreated\":{") ||
			!strings.Contains(out.Body.String(), `"destroyed":["`) {
			b.Fatal(out.Code, out.Body)
		}
	}
	b.ReportMetric(float64(processor()-before)/float64(n)/1000, "CPU-µs/op")
}
