package main

import (
	"strings"
	"testing"
)

// TestTable reads two rounds of two servers, one of which lacks a figure, and compares the whole table.
func TestTable(t *testing.T) {
	t.Parallel()
	const in = `FILL before any server cpu_s/1000=9
## ours
FILL run had=0 appended=40000 raw=982.8MB avg=24.0KB 1633/s 24.5s cpu_s/1000=0.90 wKB/msg=35.6 wio/msg=0.8
WORK run c=32 dur=8s actions=43253 rate=4000/s cpu_s_per_1000=0.200 cpu_cores=1.42 wKB/action=4.2 wio/action=0.28
  open    n=100     p50=1.00 p95=2.00 p99=30.00 max=40.0 ms
SMTP run size=1024 rcpt=1 c=32 accepted=3675 msg/s delivered=3663 msg/s (4.0s) p99=37.7 ms cpu_s/1000msg=0.36 fail=0
REST run pss_mb=250 cpu_s=12.5
## theirs
WORK run c=32 dur=8s actions=43253 rate=1000/s cpu_s_per_1000=0.800 cpu_cores=1.42 wKB/action=8.4 wio/action=0.28
## ours
WORK run c=32 dur=8s actions=43253 rate=6000/s cpu_s_per_1000=0.400 cpu_cores=1.42 wKB/action=4.2 wio/action=0.28
`
	const want = `| | ours | theirs | ours ÷ theirs |
|---|---|---|---|
| mailbox actions/s | 5000 (4000–6000) | 1000 | 5.00 |
| CPU-s per 1,000 actions | 0.3 (0.2–0.4) | 0.8 | 0.38 |
| KB written an action | 4.2 (4.2–4.2) | 8.4 | 0.50 |
| p99 of open, ms | 30 | – | – |
| filling, CPU-s per 1,000 | 0.9 | – | – |
| SMTP 1 KB to one, messages/s | 3663 | – | – |
| SMTP 1 KB to one, CPU-s per 1,000 | 0.36 | – | – |
| CPU-s in whole, with the rest | 12.5 | – | – |
| memory (PSS) after rest, MB | 250 | – | – |
`
	r, err := read(strings.NewReader(in))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	r.write(&out)
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
