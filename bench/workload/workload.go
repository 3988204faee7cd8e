// Package workload defines the behaviour of simulated people: declarative files, read strictly, and a schedule that
// depends only on the file, a seed and the number of a user.
//
// A user repeats a loop (15 minutes in most workloads of the NotesBench tradition). Loops begin at fixed times,
// independent of the server. The actions of a loop follow each other with think times drawn from the seed, and the rest
// of the loop is one long pause. So a slow server cannot slow down the users.
package workload

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
)

//go:embed files/*.toml
var files embed.FS

// Workload is the content of one file.
type Workload struct {
	Name     string   `toml:"name" doc:"Short name, as on the command line."`
	Title    string   `toml:"title" doc:"One line for people."`
	Source   string   `toml:"source" doc:"Where its numbers come from, and what was decided where the sources differ."`
	Unknown  string   `toml:"unknown" doc:"What the sources do not say; its runs are compared with each other alone."`
	Before   string   `toml:"before" doc:"What its runs left out in earlier versions of the program."`
	Protocol string   `toml:"protocol" doc:"imap (sends by SMTP), pop3, smtp, lmtp, jmap, web-full or web-lite."`
	Over     []string `toml:"over" doc:"Other protocols that can carry it (--over)."`
	Loop     Span     `toml:"loop" doc:"Length of a user's loop; where it is a range, each loop draws its own."`
	Stagger  Span     `toml:"stagger" doc:"How long after signing in a user's first loop begins."`
	Limit    Duration `toml:"limit" doc:"Average response above which a step is discarded."`
	Session  string   `toml:"session" doc:"kept: signed in throughout; loop: signs in at each loop and out behind it."`

	Sent        bool `toml:"sent-copies" doc:"Over IMAP, file a copy of what is sent in Sent; webmail does it itself."`
	Attachments int  `toml:"attachments" doc:"Percent of attachments fetched by IMAP readers; 0: whole messages are."`

	Parameters map[string]Parameter `toml:"parameters" doc:"Numbers that --set changes."`
	Sizes      map[string][]Size    `toml:"sizes" doc:"Profiles of message sizes."`
	Mailbox    Mailbox              `toml:"mailbox" doc:"What is in a mailbox before the run."`
	Recipients Recipients           `toml:"recipients" doc:"Who gets what users send."`
	Actions    []Action             `toml:"action" doc:"What a user does in a loop, in order."`

	hash string
}

// Parameter is a number that a run can change.
type Parameter struct {
	Default int    `toml:"default" doc:"Its value."`
	Doc     string `toml:"doc" doc:"What it is."`
}

// Size is one kind of message of a profile.
type Size struct {
	Body       Bytes   `toml:"body" doc:"Bytes of text."`
	Attachment Bytes   `toml:"attachment" doc:"Bytes attached, which do not compress; 0 for none."`
	Percent    float64 `toml:"percent" doc:"Share of messages. A profile's shares make 100."`
}

// Mean returns the mean size of a profile's messages in bytes.
func Mean(profile []Size) float64 {
	sum := 0.0
	for _, s := range profile {
		sum += float64(s.Body+s.Attachment) * s.Percent / 100
	}
	return sum
}

// Mailbox describes the initial content of a mailbox.
type Mailbox struct {
	Messages int    `toml:"messages" doc:"Messages in the INBOX."`
	Sizes    string `toml:"sizes" doc:"Profile of their sizes."`
	Seen     int    `toml:"seen" doc:"Percent of them that are \\Seen."`
}

// Recipients describes the distribution of mail over users.
type Recipients struct {
	// Few percent of the users receive Most percent of the mail; 0 and 0 mean an even distribution.
	Few  int `toml:"few" doc:"Percent of the users …"`
	Most int `toml:"most" doc:"… who receive this percent of the mail. 0: all alike."`
}

// Action is one line of the script.
type Action struct {
	Do     Verb     `toml:"do" doc:"What is done."`
	Times  int      `toml:"times" doc:"How often in Per loops, spread evenly."`
	Set    string   `toml:"set" doc:"Parameter that stands for times."`
	Per    int      `toml:"per" doc:"Loops over which times counts."`
	PerSet string   `toml:"per-set" doc:"Parameter that stands for per."`
	To     int      `toml:"to" doc:"Recipients of what is sent."`
	Sizes  string   `toml:"sizes" doc:"Profile of the sizes of what is sent or added."`
	Think  Span     `toml:"think" doc:"Pause behind it."`
	Hold   Duration `toml:"hold" doc:"How long idle holds on."`
	Source string   `toml:"source" doc:"Where its count comes from, where the source of the workload does not say it."`
}

// Verb is the kind of an action.
type Verb string

// The verbs.
const (
	Open        Verb = "open"        // open the INBOX and list its last page
	Scroll      Verb = "scroll"      // list a page further up
	Read        Verb = "read"        // read a message, the newest unread first
	Retrieve    Verb = "retrieve"    // fetch all new mail, as POP3 does
	Update      Verb = "update"      // set a keyword on a message
	Move        Verb = "move"        // file a message into a folder
	Delete      Verb = "delete"      // delete a message permanently
	Add         Verb = "add"         // put a message into one's own INBOX
	Send        Verb = "send"        // send a message
	Reply       Verb = "reply"       // answer the last message read
	Calendar    Verb = "calendar"    // open the calendar
	Invite      Verb = "invite"      // invite people to an event
	RSVP        Verb = "rsvp"        // answer an invitation, if there is one
	Appointment Verb = "appointment" // put an event into one's own calendar
	Lookup      Verb = "lookup"      // look up a name in the directory
	Poll        Verb = "poll"        // look for new mail
	Idle        Verb = "idle"        // stay connected and wait
	Page        Verb = "page"        // get the home page
	Close       Verb = "close"       // close the INBOX
	Login       Verb = "login"       // sign in again
)

// verbs describes each verb and lists the protocols that can carry it. ways says how a protocol carries it, where they
// differ in more than their commands.
var verbs = map[Verb]struct {
	words   string
	carried []string
	ways    map[string]string
}{
	Open:     {words: "opens the INBOX and lists its last page", carried: []string{IMAP, JMAP, POP3, WebFull, WebLite}},
	Scroll:   {words: "lists a page further up", carried: []string{IMAP, JMAP, WebFull, WebLite}},
	Read:     {words: "reads a message", carried: []string{IMAP, JMAP, POP3, WebFull, WebLite}},
	Retrieve: {words: "fetches all that is new", carried: []string{IMAP, JMAP, POP3}},
	Update:   {words: "puts a keyword on a message", carried: []string{IMAP, JMAP, WebFull, WebLite}},
	Move:     {words: "files a message into a folder", carried: []string{IMAP, JMAP, WebFull, WebLite}},
	Delete:   {words: "deletes a message", carried: []string{IMAP, JMAP, POP3, WebFull, WebLite}},
	Add:      {words: "puts a message into the INBOX", carried: []string{IMAP, JMAP, WebFull, WebLite}},
	Send:     {words: "sends a message", carried: []string{IMAP, JMAP, POP3, SMTP, LMTP, WebFull, WebLite}},
	Reply:    {words: "answers the message read last", carried: []string{IMAP, JMAP, POP3, WebFull, WebLite}},
	Calendar: {words: "opens the calendar", carried: []string{JMAP, WebFull, WebLite},
		ways: map[string]string{
			JMAP:    "a month, and the invitations that wait (JMAP Calendars); nothing where the server has none",
			WebFull: "the calendar of the full client, in a tab of its own", WebLite: pages}},
	Invite: {words: "sends an invitation", carried: []string{IMAP, JMAP, POP3, SMTP, WebFull, WebLite},
		ways: map[string]string{IMAP: imip, POP3: imip, SMTP: imip, JMAP: events, WebFull: client, WebLite: pages}},
	RSVP: {words: "answers an invitation, if one waits", carried: []string{IMAP, JMAP, WebFull, WebLite},
		ways: map[string]string{IMAP: "reads the mail and sends an iMIP REPLY",
			JMAP:    "in the calendar (JMAP Calendars), or by iMIP where the server has none",
			WebFull: client, WebLite: pages}},
	Appointment: {words: "puts an event into the calendar", carried: []string{IMAP, JMAP, WebFull, WebLite},
		ways: map[string]string{IMAP: "a message with the event, added to the folder Calendar",
			JMAP:    "an event (JMAP Calendars); nothing where the server has no calendars",
			WebFull: client, WebLite: pages}},
	Lookup: {words: "looks a name up in the directory", carried: []string{WebLite}},
	Poll:   {words: "looks for new mail", carried: []string{IMAP, JMAP, POP3, WebFull, WebLite}},
	Idle:   {words: "waits for mail", carried: []string{IMAP, JMAP, WebFull}},
	Page:   {words: "gets the home page", carried: []string{HTTP}},
	Close:  {words: "closes the INBOX", carried: []string{IMAP, POP3}},
	Login:  {words: "signs in again", carried: []string{IMAP, JMAP, POP3, SMTP, WebFull, WebLite}},
}

// The ways of the calendar's verbs.
const (
	imip   = "as mail with text/calendar (iMIP)"
	events = "as an event (JMAP Calendars), or as mail (iMIP) where the server has no calendars"
	client = "in the calendar of the full client"
	pages  = "the calendar's pages of the lite mode; nothing where it has none"
)

// The protocols.
const (
	IMAP = "imap"
	POP3 = "pop3"
	SMTP = "smtp"
	LMTP = "lmtp"
	HTTP = "http"
	JMAP = "jmap"
	// WebFull is the full web client, WebLite the one without scripts.
	WebFull = "web-full"
	WebLite = "web-lite"
)

var protocols = []string{IMAP, POP3, SMTP, LMTP, HTTP, JMAP, WebFull, WebLite}

// Carries reports whether a protocol can carry a verb. A run leaves out, counts and names the actions that it cannot
// carry.
func Carries(protocol string, v Verb) bool { return slices.Contains(verbs[v].carried, protocol) }

// Hash returns the hash of the text. Runs with different hashes have different workloads.
func (w *Workload) Hash() string { return w.hash }

// ErrWorkload means that a file is malformed; the text around it names line and field.
var ErrWorkload = errors.New("workload")

// maxFile is the size limit of a file in bytes.
const maxFile = 1 << 20

// Parse parses a file strictly. name is its name in errors.
func Parse(name string, text []byte) (*Workload, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("%w %s: longer than 1 MB", ErrWorkload, name)
	}
	w := &Workload{Limit: Duration(time.Second), Session: "kept"}
	d := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	if err := d.Decode(w); err != nil {
		return nil, fmt.Errorf("%w %s: %s", ErrWorkload, name, explain(err))
	}
	for i := range w.Actions {
		a := &w.Actions[i]
		if a.PerSet == "" {
			a.Per = cmp.Or(a.Per, 1)
		}
		if a.Times == 0 && a.Set == "" {
			a.Times = 1
		}
		if a.To == 0 && (a.Do == Send || a.Do == Reply || a.Do == Invite) {
			a.To = 1
		}
	}
	if err := w.check(); err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrWorkload, name, err)
	}
	sum := sha256.Sum256(text)
	w.hash = hex.EncodeToString(sum[:8])
	return w, nil
}

// explain turns an error of the decoder into one line, with line number and field.
func explain(err error) string {
	var unknown *toml.StrictMissingError
	if errors.As(err, &unknown) && len(unknown.Errors) > 0 {
		e := unknown.Errors[0]
		row, _ := e.Position()
		return fmt.Sprintf("line %d: there is no field %s", row, strings.Join(e.Key(), "."))
	}
	var bad *toml.DecodeError
	if errors.As(err, &bad) {
		row, _ := bad.Position()
		return fmt.Sprintf("line %d: %s: %s", row, strings.Join(bad.Key(), "."), bad.Error())
	}
	return err.Error()
}

func (w *Workload) check() error {
	switch {
	case w.Name == "" || w.Title == "":
		return errors.New("name and title must be there")
	case !slices.Contains(protocols, w.Protocol):
		return fmt.Errorf("protocol is %q: it must be one of %s", w.Protocol, strings.Join(protocols, ", "))
	case w.Session != "kept" && w.Session != "loop":
		return fmt.Errorf("session is %q: it must be kept or loop", w.Session)
	case w.Loop.Min < Duration(time.Second):
		return errors.New("loop must be a second or more")
	case len(w.Actions) == 0:
		return errors.New("no action")
	case w.Attachments < 0 || w.Attachments > 100:
		return errors.New("attachments must be 0 to 100 percent")
	case w.Mailbox.Messages < 0 || w.Mailbox.Messages > 1_000_000 || w.Mailbox.Seen < 0 || w.Mailbox.Seen > 100:
		return errors.New("mailbox: messages must be 0 to 1,000,000 and seen 0 to 100")
	}
	for _, p := range w.Over {
		if !slices.Contains(protocols, p) {
			return fmt.Errorf("over names %q, which is no protocol", p)
		}
	}
	for name, profile := range w.Sizes {
		sum := 0.0
		for _, s := range profile {
			sum += s.Percent
		}
		if sum < 99.99 || sum > 100.01 {
			return fmt.Errorf("sizes.%s: the shares make %g percent, not 100", name, sum)
		}
	}
	if w.Mailbox.Messages > 0 && w.Sizes[w.Mailbox.Sizes] == nil {
		return fmt.Errorf("mailbox.sizes: no profile %q", w.Mailbox.Sizes)
	}
	sum := 0
	for i := range w.Actions {
		if err := w.checkAction(&w.Actions[i]); err != nil {
			return fmt.Errorf("action %d (%s): %w", i+1, w.Actions[i].Do, err)
		}
		sum += w.Times(&w.Actions[i], nil)
	}
	if sum > most {
		return fmt.Errorf("loop holds %d actions, maximum is %d", sum, most)
	}
	return nil
}

// most limits the actions of one loop, and the recipients of one message.
const most = 10_000

func (w *Workload) checkAction(a *Action) error {
	for _, name := range []string{a.Set, a.PerSet} {
		if _, ok := w.Parameters[name]; name != "" && !ok {
			return fmt.Errorf("no parameter %q", name)
		}
	}
	known, needs := verbs[a.Do], a.Do == Send || a.Do == Reply || a.Do == Add
	switch {
	case known.words == "":
		return errors.New("no such verb")
	case a.Times < 0 || a.Times > most || a.Per < 0 || w.Per(a, nil) < 1 || w.Per(a, nil) > most || a.To < 0 ||
		a.To > most:
		return fmt.Errorf("times, per and to must be at most %d", most)
	case a.Set != "" && a.Times != 0:
		return errors.New("set and times exclude each other")
	case a.PerSet != "" && a.Per != 0:
		return errors.New("per-set and per exclude each other")
	case needs && w.Sizes[a.Sizes] == nil:
		return fmt.Errorf("no size profile %q", a.Sizes)
	case a.Do == Idle && a.Hold <= 0:
		return errors.New("idle needs hold")
	}
	return nil
}

// Builtin returns the built-in workloads, sorted by name.
func Builtin() ([]*Workload, error) {
	names, err := fs.Glob(files, "files/*.toml")
	if err != nil {
		return nil, err
	}
	var out []*Workload
	for _, n := range names {
		w, err := ByName(strings.TrimSuffix(path.Base(n), ".toml"))
		if err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, nil
}

// ErrUnknown means that there is no built-in workload of that name.
var ErrUnknown = errors.New("no workload of that name")

// ByName returns a built-in workload.
func ByName(name string) (*Workload, error) {
	text, err := Text(name)
	if err != nil {
		return nil, err
	}
	return Parse(name, text)
}

// Text returns the file of a built-in workload, as a template for a user's own.
func Text(name string) ([]byte, error) {
	text, err := files.ReadFile("files/" + name + ".toml")
	if err != nil {
		return nil, fmt.Errorf("%w: %q", ErrUnknown, name)
	}
	return text, nil
}

// Times returns the number of times an action is done in Per loops, with the given parameters; set may be nil.
func (w *Workload) Times(a *Action, set map[string]int) int {
	if a.Set == "" {
		return a.Times
	}
	if n, ok := set[a.Set]; ok {
		return n
	}
	return w.Parameters[a.Set].Default
}

// Per returns the number of loops over which Times counts, with the given parameters; set may be nil.
func (w *Workload) Per(a *Action, set map[string]int) int {
	if a.PerSet == "" {
		return a.Per
	}
	if n, ok := set[a.PerSet]; ok {
		return max(n, 1)
	}
	return w.Parameters[a.PerSet].Default
}

// PerHour returns the number of times a user does each verb in an hour at speed 1.
func (w *Workload) PerHour(set map[string]int) map[string]float64 {
	loops := float64(time.Hour) / float64((w.Loop.Min+w.Loop.Max)/2)
	out := make(map[string]float64)
	for i := range w.Actions {
		a := &w.Actions[i]
		out[string(a.Do)] += float64(w.Times(a, set)) / float64(w.Per(a, set)) * loops
	}
	return out
}

// Cycle returns the time, at the given speed, in which a user does each of his actions at least once: the length of the
// largest Per of all actions.
func (w *Workload) Cycle(set map[string]int, speed float64) time.Duration {
	loops := 1
	for i := range w.Actions {
		if a := &w.Actions[i]; w.Times(a, set) > 0 {
			loops = max(loops, w.Per(a, set))
		}
	}
	return time.Duration(float64(loops) * float64(w.Loop.Min+w.Loop.Max) / 2 / speed)
}

// Left returns the verbs of the workload that a protocol cannot carry, each once.
func (w *Workload) Left(protocol string) []string {
	var out []string
	for i := range w.Actions {
		if v := w.Actions[i].Do; !Carries(protocol, v) && !slices.Contains(out, string(v)) {
			out = append(out, string(v))
		}
	}
	return out
}
