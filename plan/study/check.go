package study

import (
	"fmt"
	"math"
	"strings"
)

// Verdict is the outcome of the recomputation of a printed figure.
type Verdict string

// The verdicts. Errs is an error of the document.
const (
	// Agrees: the printed figure is the recomputed one, rounded.
	Agrees Verdict = "agrees"
	// Rounded: the printed figure differs, but lies within what the rounding of its inputs, or cutting off instead of
	// rounding, explains.
	Rounded Verdict = "explained by rounding"
	// Errs: no rounding explains the printed figure.
	Errs Verdict = "errs"
	// Unsupported: the figures are right, but do not carry the conclusion.
	Unsupported Verdict = "not supported"
)

// Checked is one recomputed statement.
type Checked struct {
	// Name identifies the statement: document, place, and subject.
	Name string `json:"name"`
	// Printed is the statement of the document, Found the recomputed one.
	Printed string  `json:"printed"`
	Found   string  `json:"found"`
	Verdict Verdict `json:"verdict"`
}

// decimals returns the number of decimals of a printed number.
func decimals(printed string) int {
	_, fraction, _ := strings.Cut(printed, ".")
	return len(fraction)
}

// half returns half a unit of the last printed digit.
func half(printed string) float64 { return math.Pow10(-decimals(printed)) / 2 }

// judge compares a printed figure with value, which lies between low and high if its inputs were rounded.
func judge(printed string, stated, value, low, high float64) Verdict {
	// The tolerance is that of binary fractions.
	const tiny = 1e-9
	unit := half(printed)
	switch {
	case math.Abs(stated-value) <= unit+tiny:
		return Agrees
	case stated >= low-unit-tiny && stated <= high+unit+tiny, stated == cut(value, decimals(printed)):
		return Rounded
	}
	return Errs
}

// cut cuts a number off after some decimals.
func cut(v float64, places int) float64 {
	p := math.Pow10(places)
	return math.Trunc(v*p+math.Copysign(1e-9, v)) / p
}

// Change returns the change from a to b in percent.
func Change(a, b float64) float64 { return (b - a) / a * 100 }

// checkChange recomputes a printed change.
func checkChange(r Row, printed string) (Verdict, float64) {
	a, b := r.Number("a"), r.Number("b")
	da, db := half(r["a"]), half(r["b"])
	return judge(r[printed], r.Number(printed), Change(a, b), Change(a+da, b-db), Change(a-da, b+db)), Change(a, b)
}

// percent formats a change.
func percent(v float64) string { return fmt.Sprintf("%+.2f %%", v) }

// Changes recomputes every % change of the documents' tables.
func Changes() []Checked {
	var out []Checked
	for _, r := range Rows("changes.csv") {
		v, found := checkChange(r, "change")
		out = append(out, Checked{
			Name:    fmt.Sprintf("%s %s: %s, %s", r["document"], r["place"], r["platform"], r["resource"]),
			Printed: fmt.Sprintf("%s to %s: %s %%", r["a"], r["b"], r["change"]), Found: percent(found), Verdict: v})
	}
	return out
}

// Ratios recomputes the ratios in the texts.
func Ratios() []Checked {
	var out []Checked
	for _, r := range Rows("ratios.csv") {
		v, found := checkChange(r, "printed")
		if r["kind"] == "share" {
			a, b := r.Number("a"), r.Number("b")
			found = b / a * 100
			v = judge(r["printed"], r.Number("printed"), found, (b-half(r["b"]))/(a+half(r["a"]))*100,
				(b+half(r["b"]))/(a-half(r["a"]))*100)
		}
		out = append(out, Checked{Name: fmt.Sprintf("%s %s: %s", r["document"], r["place"], r["what"]),
			Printed: fmt.Sprintf("%s and %s: %s %%", r["a"], r["b"], r["printed"]),
			Found:   fmt.Sprintf("%.2f %%", found), Verdict: v})
	}
	return out
}

// find returns the two figures of a resource in a table at 4,000 users.
func find(document, platform, from, resource string) (a, b float64) {
	if resource == "disk reads+writes/s" {
		a, b = find(document, platform, from, "disk reads/s")
		c, d := find(document, platform, from, "disk writes/s")
		return a + c, b + d
	}
	for _, r := range Rows("changes.csv") {
		if r["document"] == document && r["platform"] == platform && r["from"] == from && r["resource"] == resource {
			return r.Number("a"), r.Number("b")
		}
	}
	panic(fmt.Sprintf("study: no figures of %s, %s, %s, %s", document, platform, from, resource))
}

// Ranges compares the ranges that the texts print for figures with the tables at 4,000 users, which the figures
// include.
func Ranges() []Checked {
	var out []Checked
	for _, r := range Rows("ranges.csv") {
		a, b := find(r["document"], r["platform"], r["from"], r["resource"])
		found := -Change(a, b)
		v := Errs
		if found >= r.Number("low")-0.5 && found <= r.Number("high")+0.5 {
			v = Agrees
		}
		out = append(out, Checked{
			Name: fmt.Sprintf("%s %s: %s %s to %s, %s", r["document"], r["place"], r["platform"], r["from"], r["to"],
				r["resource"]),
			Printed: fmt.Sprintf("less by %s to %s %%", r["low"], r["high"]),
			Found:   fmt.Sprintf("%.1f %% less at 4,000 users", found), Verdict: v})
	}
	return out
}

// Check recomputes all statements.
func Check() []Checked {
	out := Changes()
	out = append(out, Ratios()...)
	out = append(out, Ranges()...)
	return append(out, Conclusions()...)
}
