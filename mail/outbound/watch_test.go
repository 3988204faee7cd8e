package outbound

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/client/dns/zone"
	"doublet/client/mtasts"
	"doublet/mail/outbound/sink"
)

// observer records the outcomes: the policy type, and the result type if TLS failed.
type observer struct {
	mu   sync.Mutex
	told []string
	last Observation
}

func (x *observer) Observe(o *Observation) {
	x.mu.Lock()
	defer x.mu.Unlock()
	words := o.Policy.Type
	if o.Failure != nil {
		words += " " + o.Failure.Type
	}
	x.told, x.last = append(x.told, words), *o
}

// observed is the expected outcome in each case of TestSecurity. The second session, without TLS, is not observed.
var observed = map[string]string{
	"opportunistic without TLS":                "no-policy-found starttls-not-supported",
	"opportunistic":                            "no-policy-found",
	"opportunistic, self-signed":               "no-policy-found",
	"opportunistic, expired":                   "no-policy-found",
	"opportunistic, a version that is too old": "no-policy-found validation-failure",
	"encrypt without TLS":                      "no-policy-found starttls-not-supported",
	"encrypt":                                  "no-policy-found",
	"encrypt, too old":                         "no-policy-found validation-failure",
	"verify":                                   "no-policy-found",
	"verify, self-signed":                      "no-policy-found certificate-not-trusted",
	"verify, another name":                     "no-policy-found certificate-host-mismatch",
	"verify, expired":                          "no-policy-found certificate-expired",
	"DANE-EE 3 1 1":                            "tlsa",
	"DANE-EE 3 0 2":                            "tlsa",
	"DANE-EE 3 1 0":                            "tlsa",
	"DANE-EE counts no dates":                  "tlsa",
	"DANE-EE counts no names":                  "tlsa",
	"DANE-EE of another key":                   "tlsa validation-failure",
	"DANE, the second record fits":             "tlsa",
	"DANE-TA 2 1 1":                            "tlsa",
	"DANE-TA 2 0 0":                            "tlsa",
	"DANE-TA by the domain's name":             "tlsa",
	"DANE-TA counts names":                     "tlsa certificate-host-mismatch",
	"DANE-TA counts dates":                     "tlsa certificate-expired",
	"DANE-TA of another authority":             "tlsa validation-failure",
	"DANE without TLS":                         "tlsa starttls-not-supported",
	"DANE in a zone that is not signed":        "no-policy-found",
	"DANE with records of no use demands TLS":  "tlsa tlsa-invalid",
	"DANE with records of no use, no TLS":      "tlsa starttls-not-supported",
	"DANE goes before MTA-STS":                 "tlsa",
	"MTA-STS":                                  "sts",
	"MTA-STS, self-signed":                     "sts certificate-not-trusted",
	"MTA-STS, expired":                         "sts certificate-expired",
	"MTA-STS, another name":                    "sts certificate-host-mismatch",
	"MTA-STS without TLS":                      "sts starttls-not-supported",
	"MTA-STS, another host":                    "sts validation-failure",
	"MTA-STS in testing":                       "sts certificate-not-trusted",
}

// answer is a Policies with a fixed answer.
type answer struct{ is mtasts.Answer }

func (a answer) Policy(context.Context, string) mtasts.Answer { return a.is }

// TestObserved checks the outcomes for a policy that cannot be fetched, for a failed TLSA lookup, and for a host that a
// policy in testing mode does not name. Sessions that override the domain's policies are not observed.
func TestObserved(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	good := ca.server("mx.far.example", time.Hour)
	for name, c := range map[string]struct {
		sts    mtasts.Answer
		target Target
		fail   bool
		want   string
	}{
		"fetch":       {sts: mtasts.Answer{Trouble: mtasts.FetchError}, want: "sts sts-policy-fetch-error"},
		"invalid":     {sts: mtasts.Answer{Trouble: mtasts.Invalid}, want: "sts sts-policy-invalid"},
		"certificate": {sts: mtasts.Answer{Trouble: mtasts.WebPKI}, want: "sts sts-webpki-invalid"},
		"none":        {sts: mtasts.Answer{Policy: &mtasts.Policy{Mode: mtasts.None}}, want: "no-policy-found"},
		"testing":     {sts: fixed{false, []string{"mx.far.example"}}.Policy(bg, ""), want: "sts"},
		"testing elsewhere": {sts: fixed{false, []string{"elsewhere.example"}}.Policy(bg, ""),
			want: "sts validation-failure"},
		"no TLSA": {fail: true, want: "tlsa dnssec-invalid"},
		"relaxed": {target: Target{TLS: Relaxed}},
		"plain":   {target: Target{Security: Plain}},
		"route":   {target: Target{Host: "mx.far.example"}},
	} {
		s, z, fix := start(t, sink.Options{TLS: good})
		z.Secure("far.example")
		if c.fail {
			z.Fail(fmt.Sprintf("_%d._tcp.mx.far.example.", s.Port()), zone.ServFail)
		}
		seen := &observer{}
		m := mailer(fix, s, z, func(o *Options) { o.Roots, o.Policies, o.Observer = ca.pool(), answer{c.sts}, seen })
		if c.target.Domain = "far.example"; c.target.Host != "" {
			c.target.Domain, c.target.Port = "", s.Port()
		}
		session, fail := m.Connect(bg, &c.target)
		if session != nil {
			session.Quit()
		}
		if told := strings.Join(seen.told, ", "); told != c.want {
			t.Errorf("%s: %q, want %q (%v)", name, told, c.want, fail)
		}
		if f := seen.last.Failure; f != nil && (f.MX != "mx.far.example" || !c.fail &&
			(f.IP != "127.0.0.1" || f.SendingIP != "127.0.0.1")) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
