package lite

import (
	"fmt"
	"html/template"
	"net/url"
	"strings"
	"testing"

	"doublet/groupware"
)

func (w *world) putCard(name, uid string, lines ...string) {
	w.t.Helper()
	text := "BEGIN:VCARD\r\nVERSION:4.0\r\nUID:" + uid + "\r\n" + strings.Join(lines, "\r\n") + "\r\nEND:VCARD\r\n"
	_, _, err := w.calendarOf(name).Put(bg, groupware.AddressBook, groupware.DefaultContacts, uid+".vcf", []byte(text),
		groupware.Condition{})
	w.ok(err)
}

// cards returns the texts of all contacts of somebody.
func (w *world) cards(name string) (all string) {
	w.t.Helper()
	w.ok(w.calendarOf(name).All(bg, groupware.AddressBook, true, func(e *groupware.Entry) bool {
		all += string(e.Text)
		return true
	}))
	return strings.ReplaceAll(all, "\r\n ", "")
}

func TestContactForm(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	b := w.signed("alice")
	b.get(pathContacts)
	b.want(200, "No contacts")
	b.follow("New contact")
	b.send(`name="given"`, nil, "do", "save")
	b.want(400, "Enter at least")
	_, values := b.form(`name="given"`)
	values["email"] = []string{"no address", ""}
	values.Set("given", "Grace; \"G\"")
	values.Set("do", "save")
	b.post(pathContact, values, nil)
	b.want(400, "no address", "Grace;")
	values["email"] = []string{"grace@far.example", "g@work.example"}
	values["emailkind"] = []string{"private", "work"}
	values["phone"] = []string{"+1 555", ""}
	values["phonekind"] = []string{"mobile", ""}
	for name, v := range map[string]string{"surname": "Höpper", "organization": "Navy", "job": "Admiral",
		"street": "Main St. 1", "postcode": "12345", "locality": "Town", "country": "Land", "birthday": "--12-09",
		"notes": "first\nsecond https://a.example/"} {
		values.Set(name, v)
	}
	b.post(pathContact, values, nil)
	b.want(200, "Saved", "Grace; &#34;G&#34; Höpper", "grace@far.example")
	b.follow("Höpper")
	b.want(200, "Mail (Private)", "Mail (Work)", "Phone (Mobile)", "Main St. 1, 12345 Town, Land", "--12-09", "Navy",
		`href="/lite/compose?to=grace%40far.example"`, `<a href="https://a.example/"`, `<a href="tel:&#43;1555">`)
	got := w.cards("alice")
	for _, want := range []string{"\r\nN:Höpper;Grace\\; \"G\";", ":--1209\r\n", "EMAIL", "TYPE=cell", ":Navy\r\n",
		":Admiral\r\n", "Main St. 1;Town;;12345;Land"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	b.follow("Edit")
	_, values = b.form(`name="given"`)
	if n := len(values["email"]); n != 4 || values.Get("surname") != "Höpper" || values.Get("birthday") != "--12-09" {
		t.Fatal(values)
	}
	values["email"][0], values["email"][1] = "", "g2@work.example"
	values.Set("street", "Side St. 2")
	values.Set("birthday", "1906-12-09")
	values.Set("do", "save")
	b.post(pathContact, values, nil)
	got = w.cards("alice")
	if strings.Contains(got, "grace@far") || !strings.Contains(got, "TYPE=cell") || !strings.Contains(got,
		"TYPE=work") && !strings.Contains(got, "TYPE=WORK") ||
		!strings.Contains(got, "g2@work.example") || !strings.Contains(got, "Side St. 2;Town;;12345") ||
		!strings.Contains(got, ":19061209\r\n") {
		t.Error(got)
	}
	b.post(pathContact, values, nil) // the state of before
	b.want(409, "Somebody changed this entry")
	b.get(pathContacts)
	b.follow("Höpper")
	b.follow("Delete")
	b.send("Delete “", nil, "do", "delete")
	b.want(200, "Contact deleted", "No contacts")
}

// TestContactKept checks that the form keeps what it does not show.
func TestContactKept(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	w.putCard("alice", "odd", "FN:Dr. Odd von Even", "N:Even;Odd;Middle;Dr.;", "X-ODD:kept", "TEL;TYPE=pager:999",
		"ADR;LABEL=\"x\":;;Way 1;City;Region;1;Land", "PHOTO:data:image/png;base64,AAAA", "IMPP:xmpp:a@b")
	b := w.signed("alice")
	b.get(pathContacts)
	b.follow("Odd von Even")
	b.follow("Edit")
	b.send(`name="given"`, nil, "given", "Odder", "do", "save")
	got := w.cards("alice")
	for _, want := range []string{"N:Even;Odder;Middle;Dr.;", "X-ODD:kept", "TEL;TYPE=pager:999",
		"ADR;LABEL=x:;;Way 1;City;Region;1;Land", "PHOTO:data:image/png", "IMPP:xmpp:a@b", "FN"} {
		if !strings.Contains(strings.ReplaceAll(got, `"x"`, "x"), want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

// TestContactLinks checks the targets of links that are made from the values of a contact.
func TestContactLinks(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]template.URL{
		"+1 (555) 010-0": "tel:+15550100", "tel:+1-555;ext=5": "tel:+1555", "*100#": "tel:*100%23", "office": "",
		"javascript:alert(1)": "tel:1", `" onclick="7`: "tel:7",
	} {
		if got := telephone(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	w := open(t, 0)
	w.putCard("alice", "odd", "FN:Odd", "TEL:+1 \"555\"", "TEL:ask the office", "URL:javascript:alert(1)",
		"URL:https://a.example/\"><b>", "EMAIL:a&b=c@x.example")
	b := w.signed("alice")
	b.get(pathContacts)
	b.follow("Odd")
	b.want(200, `<a href="tel:&#43;1555">`, "<bdi>ask the office</bdi></dd>", "<bdi>javascript:alert(1)</bdi></dd>",
		`<a href="https://a.example/%22%3e%3cb%3e">`, `<a href="/lite/compose?to=a%26b%3Dc%40x.example">`)
}

func TestContactList(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	long := strings.Repeat("<&>", 300)
	for i := range 65 {
		w.putCard("alice", fmt.Sprint("c", i), fmt.Sprintf("FN:Person %02d %s", i, long), fmt.Sprintf("ORG:Org%d", i%2),
			"NOTE:"+long+long+long+long+long+long+long+long+long)
	}
	w.putCard("alice", "group", "KIND:group", "FN:A group", "MEMBER:c3", "MEMBER:c4", "MEMBER:urn:uuid:none")
	b := w.signed("alice")
	b.get(pathContacts)
	b.want(200, "A group", "Person 00", "1–30")
	b.follow("Older")
	b.want(200, "Person 29")
	b.get(pathContacts + "?words=" + url.QueryEscape("ORG1 person"))
	b.want(200, "Person 01", "of 32")
	b.lacks("Person 00")
	b.get(pathContacts + "?words=nobody")
	b.want(200, "Nobody found")
	b.get(pathContacts + "?p=99999")
	b.want(200, "Person 64")
	b.follow("Person 64")
	b.want(200)
	b.get(pathContacts)
	b.follow("A group")
	b.want(200, "Person 03", "Person 04", "+1")
	bob := w.signed("bob")
	bob.get(b.at)
	bob.want(404)
	bob.get(pathContacts + "?b=" + w.people["alice"].MailDatabase.String())
	bob.want(404)
}
