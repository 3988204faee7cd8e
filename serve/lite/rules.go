package lite

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"doublet/mail/ruleset"
	"doublet/mail/scripts"
	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/sieve"
)

// rulesPage lists the rules of the active Sieve script.
type rulesPage struct {
	*frame
	State        string
	Script       string // name of the script, "" if there is none
	Off, Broken  bool   // the script is not active, or has mistakes
	Rules        []ruleRow
	Part         string
	Newer, Older string // addresses of the other parts of a long list
	From         int    // the first rule on the page
}

type ruleRow struct {
	At                 int
	Name, Does, Edit   string
	On, Opaque         bool
	MayRise, MayFall   bool
	Rise, Fall, Remove string // what the buttons say
}

// rulesOnPage bounds the rules on a page, which keeps the page under 30 KB.
const rulesOnPage = 15

// errRulesChanged reports that the rules are not those that a form showed.
var errRulesChanged = errors.New("lite: the rules were changed elsewhere")

// errRuleForm is the error of a rule that cannot be read from a form. Its text is shown.
var errRuleForm = errors.New("invalid rule")

// rules shows the list, or the form of a rule or of the script.
func (v *visit) rules() error {
	switch {
	case v.form.Get("text") != "":
		return v.scriptForm("", nil)
	case v.form.Get("edit") != "" || v.form.Get("m") != "":
		return v.ruleForm()
	}
	return v.ruleList(nil)
}

// readRules returns the list of scripts, and the rules of the active one: nil if it has mistakes.
func (v *visit) readRules() (l *scripts.List, x *ruleset.Script, err error) {
	own, err := v.own()
	if err != nil {
		return nil, nil, err
	}
	err = own.Read(v.ctx, func(d *mailbox.Reading) error {
		if l, err = scripts.Read(own.File, d); err != nil {
			return err
		}
		var mistakes sieve.Errors
		if x, err = l.Rules(d); errors.As(err, &mistakes) {
			return nil
		}
		return err
	})
	return l, x, err
}

// ruleList shows the list. why is the reason for which a change was refused, or nil.
func (v *visit) ruleList(why error) error {
	l, x, err := v.readRules()
	if err != nil {
		return err
	}
	fr, _, err := v.framed("rules", note.UNID{})
	if err != nil {
		return err
	}
	p := &rulesPage{frame: fr, State: l.State(), Broken: x == nil}
	if s := l.OfRules(); s != nil {
		p.Script, p.Off = fit(s.Name, 80, 120), !s.Active
	}
	if x != nil {
		v.ruleRows(p, x.Rules)
	}
	status := http.StatusOK
	if v.toldOf(fr, ""); why != nil {
		status = v.ruleRefusal(fr, why)
	}
	v.s.show(v.w, status, "rules.html", p)
	return nil
}

// ruleRows puts the part of the rules on the page that the request asks for.
func (v *visit) ruleRows(p *rulesPage, all []ruleset.Rule) {
	from, _ := strconv.Atoi(v.form.Get("from"))
	if from = from / rulesOnPage * rulesOnPage; from < 0 || from >= len(all) {
		from = 0
	}
	p.From = from
	to := min(len(all), from+rulesOnPage)
	for i := from; i < to; i++ {
		r := &all[i]
		name := v.ruleName(r, i)
		p.Rules = append(p.Rules, ruleRow{At: i, Name: name, Does: fit(v.sentence(r), 200, 400), On: r.Enabled,
			Opaque: r.Opaque, Edit: pathRules + "?edit=" + itoa(i), MayRise: i > 0, MayFall: i+1 < len(all),
			Rise: v.T("ruleUp", name), Fall: v.T("ruleDown", name), Remove: v.T("ruleRemoveNamed", name)})
	}
	if len(all) > rulesOnPage {
		p.Part = v.T("rulesPart", from+1, to, len(all))
	}
	if from > 0 {
		p.Newer = pathRules + "?from=" + itoa(from-rulesOnPage)
	}
	if to < len(all) {
		p.Older = pathRules + "?from=" + itoa(to)
	}
}

func (v *visit) ruleName(r *ruleset.Rule, at int) string {
	if r.Name == "" {
		return v.T("ruleUnnamed", at+1)
	}
	return fit(r.Name, 60, 100)
}

// ruleRefusal says why rules are not stored, and returns the HTTP status.
func (v *visit) ruleRefusal(p *frame, why error) int {
	var mistakes sieve.Errors
	switch {
	case errors.Is(why, errRulesChanged):
		p.say("rulesChanged", true)
		return http.StatusConflict
	case errors.As(why, &mistakes), errors.Is(why, ruleset.ErrRule), errors.Is(why, errRuleForm),
		errors.Is(why, scripts.ErrTooBig), errors.Is(why, scripts.ErrMany):
		p.say("ruleRefused", true, clip(why.Error(), 300))
		return http.StatusUnprocessableEntity
	}
	status, key := refusal(why)
	p.say(key, true)
	return status
}

// changeRules carries a form out.
func (v *visit) changeRules() error {
	do, rest, _ := strings.Cut(v.form.Get("do"), ":")
	at, err := strconv.Atoi(rest)
	if err != nil {
		at = -1
	}
	switch do {
	case "save", "try":
		return v.ruleFormSent(do == "try")
	case "script":
		return v.scriptSent()
	case "activate":
		err = v.editScripts(func(e *scripts.Editor, _ *mailbox.Reading) error {
			s := e.List().OfRules()
			if s == nil {
				return errNotFound
			}
			return e.Activate(s.Name)
		})
	case "on", "off", "up", "down", "remove":
		err = v.editRules(func(x *ruleset.Script) error { return changeRule(x, do, at) })
	default:
		return errForm
	}
	if err != nil {
		return v.ruleList(err)
	}
	return v.leave(pathRules, "said", "saved", "from", v.form.Get("from"))
}

// changeRule switches, moves or removes a rule.
func changeRule(x *ruleset.Script, do string, at int) error {
	to := at
	switch do {
	case "up":
		to--
	case "down":
		to++
	}
	if at < 0 || at >= len(x.Rules) || to < 0 || to >= len(x.Rules) {
		return errNotFound
	}
	r := &x.Rules[at]
	switch do {
	case "on", "off":
		if r.Opaque {
			return errForm
		}
		r.Enabled, r.Text = do == "on", ""
	case "remove":
		x.Rules = append(x.Rules[:at:at], x.Rules[at+1:]...)
	default:
		x.Rules[at], x.Rules[to] = x.Rules[to], x.Rules[at]
	}
	return nil
}

// editScripts changes the scripts, if they are those that the form showed.
func (v *visit) editScripts(change func(*scripts.Editor, *mailbox.Reading) error) error {
	own, err := v.own()
	if err != nil {
		return err
	}
	res, err := own.Change(v.ctx, 1, func(c *mailbox.Changing, _ int) error {
		e, err := scripts.Edit(own.File, c)
		if err != nil {
			return err
		}
		if e.List().State() != v.form.Get("state") {
			return errRulesChanged
		}
		return change(e, c.Reading)
	})
	if err == nil {
		err = res.Errs[0]
	}
	return err
}

// editRules changes the rules of the active script, if they are those that the form showed.
func (v *visit) editRules(change func(*ruleset.Script) error) error {
	var id note.UNID
	v.s.env.Fill(id[:])
	return v.editScripts(func(e *scripts.Editor, d *mailbox.Reading) error {
		x, err := e.List().Rules(d)
		if err != nil {
			return err
		}
		if err := change(x); err != nil {
			return err
		}
		return e.PutRules(x, id)
	})
}
