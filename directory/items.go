package directory

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/note"
	"doublet/wire/scram"
)

// The forms of the directory's documents.
const (
	formPerson = "Person"
	formGroup  = "Group"
	formMailIn = "MailIn"
	formServer = "Server"
	formDomain = "Domains"
)

// The names of items. They are Domino's names where Domino has one.
const (
	itemForm            = "Form"
	itemFullName        = "FullName"
	itemShortName       = "ShortName"
	itemInternetAddress = "InternetAddress"
	itemMailAddress     = "MailAddress"
	itemMailDatabase    = "MailDatabase"
	itemPassword        = "HTTPPassword"
	itemScram           = "ScramCredentials"
	itemQuota           = "Quota"
	itemWarning         = "Warning"
	itemSizeLimit       = "SizeLimit"
	itemRoles           = "Roles"
	itemDisabled        = "Disabled"
	itemAssistance      = "PasswordDirectory"
	itemGroupDirectory  = "GroupDirectory" // that has the members
	itemGroupEntry      = "GroupEntry"     // there
	itemRemoved         = "Removed"        // Unix seconds
	itemListName        = "ListName"
	itemMembers         = "Members"
	itemGroupKind       = "GroupType"
	itemDescription     = "ListDescription"
	itemMailServer      = "MailServer"
	itemServerName      = "ServerName"
	itemHost            = "NetAddress"
	itemDoors           = "NetAddresses" // "imap host:port"
	itemDomains         = "Domains"
	itemFirstServer     = "FirstServer" // of the domain
	itemSecret          = "Secret"
	itemForward         = "ForwardTo"
	itemForwardOnly     = "ForwardOnly" // no copy is kept
	itemSendAs          = "MaySendAs"
	itemOnBehalf        = "MaySendOnBehalf"
	// itemPasswordID changes with every new password of an account. Sessions that began with the old password end by
	// it.
	itemPasswordID = "PasswordID"
	itemTOTP       = "TOTPSecret"
	itemTOTPSince  = "TOTPSince" // Unix seconds
	// itemRecovery is the prefix of recovery code items. Each code has an item of its own, because each is removed when
	// it is used.
	itemRecovery = "RecoveryCode."
	// itemToken is the prefix of app password items. Each app password has an item of its own, so that app passwords
	// added at two replicas merge.
	itemToken = "AppPassword."
	// itemPasskey is the prefix of passkey items. Each passkey has an item of its own, as app passwords have.
	itemPasskey = "Passkey."
)

// SecretItem reports whether an item of that name holds a secret that nobody may read: a password, a value to verify
// one with, or a key. The result depends on the name alone, not on the note.
func SecretItem(name string) bool {
	switch name {
	case itemPassword, itemScram, itemSecret, itemKeyPrivate, itemRoutePassword, itemTOTP:
		return true
	}
	return strings.HasPrefix(name, itemToken) || strings.HasPrefix(name, itemRecovery) ||
		strings.HasPrefix(name, itemPasskey)
}

// PersonFields are the parts of a person that an administrator sets.
type PersonFields struct {
	// FullName lists the full names. The first one is the canonical name.
	FullName  []string
	ShortName string
	// InternetAddress is the sender address of the person's mail. MailAddress lists further addresses.
	InternetAddress string
	MailAddress     []string
	// MailDatabase is the id of the person's mail file.
	MailDatabase note.DatabaseID
	// MailServer is the server that holds the mail file, alone or with its cluster. Zero is the first server of the
	// domain, or the only server outside a domain.
	MailServer note.UNID
	// Quota, Warning and SizeLimit (of one message) are in bytes; 0 is no limit.
	Quota, Warning, SizeLimit uint64
	Roles                     []string
	// Assistance is the other directory that keeps the person's password. Zero: the password is kept here.
	Assistance note.UNID
	// Disabled rejects sign-ins and mail (550 5.2.1). Mail to addresses such as postmaster is still accepted.
	Disabled bool
	// Forward lists addresses that the person's mail is forwarded to. ForwardOnly keeps no copy in the mail file.
	Forward     []string
	ForwardOnly bool
	Vacation    Vacation
	// SendAs lists the UNIDs of people and groups that may write as this person. OnBehalf lists those that may write on
	// the person's behalf, with their own address in Sender (RFC 5322 section 3.6.2). Setters also accept names and
	// addresses, and turn them into UNIDs.
	SendAs, OnBehalf []string
}

// AppPassword describes an app password, without its secret.
type AppPassword struct {
	ID, Label, Last4 string
	Created          time.Time
}

// Person is a person as the directory stores them. Callers must not change its lists.
type Person struct {
	ID note.UNID
	PersonFields
	// HasPassword reports that the account has a password, here or in another directory.
	HasPassword  bool
	HasScram     bool
	AppPasswords []AppPassword
	Passkeys     []Passkey
	// TOTP is the time when the second factor was set, zero without a second factor.
	TOTP time.Time
	// PasswordID changes with every new password of the account.
	PasswordID string
	// Removed is the time of the removal; the zero time means that the person was not removed.
	Removed time.Time

	password string
	totp     []byte              // the shared secret
	recovery [][]byte            // hashes of the recovery codes that are left
	scram    []scram.Credentials // with one salt: the account's first, if HasScram, then those of app passwords
	tokens   [][]byte            // hashes, parallel to AppPasswords
}

// Name returns the canonical full name.
func (p *PersonFields) Name() string {
	if len(p.FullName) == 0 {
		return ""
	}
	return p.FullName[0]
}

// Addresses returns the internet address, if there is one, and the aliases.
func (p *PersonFields) Addresses() []string {
	if p.InternetAddress == "" {
		return p.MailAddress
	}
	return append([]string{p.InternetAddress}, p.MailAddress...)
}

// fields sets items in order. Setting an empty value removes the item.
type fields struct{ items note.Items }

func (f *fields) text(name, s string) {
	var v note.Value
	if s != "" {
		v = note.Text(s)
	}
	f.items = f.items.With(name, v)
}

func (f *fields) list(name string, list []string) {
	var v note.Value
	if len(list) > 0 {
		v = note.TextList(list...)
	}
	f.items = f.items.With(name, v)
}

func (f *fields) int(name string, n int64) {
	var v note.Value
	if n != 0 {
		v = note.Int(n)
	}
	f.items = f.items.With(name, v)
}

func (f *fields) bool(name string, on bool) {
	var v note.Value
	if on {
		v = note.Bool(true)
	}
	f.items = f.items.With(name, v)
}

func (f *fields) binary(name string, b []byte) {
	var v note.Value
	if len(b) > 0 {
		v = note.Binary(b)
	}
	f.items = f.items.With(name, v)
}

func (f *fields) database(name string, id note.DatabaseID) {
	s := ""
	if id != 0 {
		s = id.String()
	}
	f.text(name, s)
}

func (f *fields) unid(name string, id note.UNID) {
	s := ""
	if !id.IsZero() {
		s = id.String()
	}
	f.text(name, s)
}

func readUNID(v note.Value) note.UNID {
	id, _ := note.ParseUNID(v.AsText())
	return id
}

// write sets the fields in items. It leaves all other items unchanged, including those of later versions.
func (p *PersonFields) write(items note.Items) note.Items {
	f := fields{items}
	f.text(itemForm, formPerson)
	f.list(itemFullName, p.FullName)
	f.text(itemShortName, p.ShortName)
	f.text(itemInternetAddress, p.InternetAddress)
	f.list(itemMailAddress, p.MailAddress)
	f.database(itemMailDatabase, p.MailDatabase)
	f.unid(itemMailServer, p.MailServer)
	f.int(itemQuota, int64(p.Quota))
	f.int(itemWarning, int64(p.Warning))
	f.int(itemSizeLimit, int64(p.SizeLimit))
	f.list(itemRoles, p.Roles)
	f.bool(itemDisabled, p.Disabled)
	if f.unid(itemAssistance, p.Assistance); !p.Assistance.IsZero() {
		f.text(itemPassword, "") // the person has one password
		f.binary(itemScram, nil)
	}
	f.list(itemForward, p.Forward)
	f.bool(itemForwardOnly, p.ForwardOnly)
	f.list(itemSendAs, p.SendAs)
	f.list(itemOnBehalf, p.OnBehalf)
	p.Vacation.write(&f)
	return f.items
}

// clone returns a copy of the fields with lists that the caller may change.
func (p *PersonFields) clone() PersonFields {
	q := *p
	q.FullName, q.MailAddress, q.Roles = slices.Clone(p.FullName), slices.Clone(p.MailAddress), slices.Clone(p.Roles)
	q.Forward, q.SendAs, q.OnBehalf = slices.Clone(p.Forward), slices.Clone(p.SendAs), slices.Clone(p.OnBehalf)
	return q
}

func readPerson(id note.UNID, items note.Items) Person {
	p := Person{ID: id, PersonFields: PersonFields{
		FullName:        items.Get(itemFullName).AsTextList(),
		ShortName:       items.Get(itemShortName).AsText(),
		InternetAddress: items.Get(itemInternetAddress).AsText(),
		MailAddress:     items.Get(itemMailAddress).AsTextList(),
		MailDatabase:    readDatabase(items.Get(itemMailDatabase)),
		MailServer:      readUNID(items.Get(itemMailServer)),
		Quota:           uint64(max(0, items.Get(itemQuota).AsInt())),
		Warning:         uint64(max(0, items.Get(itemWarning).AsInt())),
		SizeLimit:       uint64(max(0, items.Get(itemSizeLimit).AsInt())),
		Roles:           items.Get(itemRoles).AsTextList(),
		Disabled:        items.Get(itemDisabled).AsBool(),
		Assistance:      readUNID(items.Get(itemAssistance)),
		Forward:         items.Get(itemForward).AsTextList(),
		ForwardOnly:     items.Get(itemForwardOnly).AsBool(),
		Vacation:        readVacation(items),
		SendAs:          items.Get(itemSendAs).AsTextList(),
		OnBehalf:        items.Get(itemOnBehalf).AsTextList(),
	}}
	p.password = items.Get(itemPassword).AsText()
	p.HasPassword = p.password != ""
	var own scram.Credentials
	if own, p.HasScram = readScram(items.Get(itemScram).AsBinary()); p.HasScram {
		p.scram = append(p.scram, own)
	}
	p.PasswordID = items.Get(itemPasswordID).AsText()
	if !p.Assistance.IsZero() {
		// Another replica may have set a password here meanwhile: it does not count.
		p.HasPassword, p.password, p.HasScram, p.scram = true, "", false, nil
		p.PasswordID = assisted + p.Assistance.String()
	}
	p.Removed = readRemoved(items)
	p.totp = items.Get(itemTOTP).AsBinary()
	if p.HasTOTP() {
		p.TOTP = time.Unix(items.Get(itemTOTPSince).AsInt(), 0).UTC()
	}
	for _, v := range items.Entries(itemRecovery) {
		p.recovery = append(p.recovery, []byte(v.AsText()))
	}
	for id, v := range items.Entries(itemPasskey) {
		if k, ok := readPasskey(id, v); ok {
			p.Passkeys = append(p.Passkeys, k)
		}
	}
	for id, v := range items.Entries(itemToken) {
		list := v.AsTextList()
		if len(list) < 4 {
			continue
		}
		created, _ := strconv.ParseInt(list[2], 10, 64)
		p.AppPasswords = append(p.AppPasswords, AppPassword{ID: id, Label: list[0], Last4: list[3],
			Created: time.Unix(created, 0).UTC()})
		p.tokens = append(p.tokens, []byte(list[1]))
		if len(list) > 4 {
			p.addScram(list[4])
		}
	}
	return p
}

// addScram adds the SCRAM credentials of an app password, unless their salt differs from the salt of the credentials
// already there: a server can send a client only one salt.
func (p *Person) addScram(text string) {
	b, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return
	}
	c, ok := readScram(b)
	if ok && (len(p.scram) == 0 || saltIn(&c).is(saltIn(&p.scram[0]))) {
		p.scram = append(p.scram, c)
	}
}

func tokenItem(a *AppPassword, hash, scram []byte) note.Value {
	return note.TextList(a.Label, string(hash), strconv.FormatInt(a.Created.Unix(), 10), a.Last4,
		base64.RawStdEncoding.EncodeToString(scram))
}

func readRemoved(items note.Items) time.Time {
	if at := items.Get(itemRemoved).AsInt(); at != 0 {
		return time.Unix(at, 0).UTC()
	}
	return time.Time{}
}

func readDatabase(v note.Value) note.DatabaseID {
	id, err := note.ParseDatabaseID(v.AsText())
	if err != nil {
		return 0
	}
	return id
}

// appendScram encodes iterations (4 bytes), stored key (32), server key (32) and salt.
func appendScram(c *scram.Credentials) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(c.Iterations))
	b = append(append(b, c.StoredKey[:]...), c.ServerKey[:]...)
	return append(b, c.Salt...)
}

func readScram(b []byte) (c scram.Credentials, ok bool) {
	if len(b) < 4+32+32+8 || len(b) > 4+32+32+64 {
		return c, false
	}
	c.Iterations = int(binary.BigEndian.Uint32(b))
	copy(c.StoredKey[:], b[4:])
	copy(c.ServerKey[:], b[36:])
	c.Salt = slices.Clone(b[68:])
	return c, c.Iterations >= 1 && c.Iterations <= scram.MaxIterations
}

// GroupKind is the purpose of a group: mail, access lists or both.
type GroupKind string

// The kinds of groups.
const (
	// GroupMulti is for mail and for access lists.
	GroupMulti GroupKind = "multi"
	// GroupMail is for mail only: access lists ignore it.
	GroupMail GroupKind = "mail"
	// GroupAccess is for access lists only.
	GroupAccess GroupKind = "access"
)

// GroupFields are the parts of a group that an administrator sets.
type GroupFields struct {
	Name, Description string
	// InternetAddress is the address at which the group receives mail, empty if it receives none.
	InternetAddress string
	Kind            GroupKind // GroupMulti if empty
	// Members lists UNIDs (32 hex digits) of people, groups and mail-in databases, and addresses in other domains.
	// Setters also accept names and addresses of this directory, and turn them into UNIDs.
	Members []string
	// SendAs and OnBehalf list the people and groups that may write under the group's address. See PersonFields.
	SendAs, OnBehalf []string
	// List makes the group a mailing list.
	List ListFields
	// Assistance is another directory, whose group Entry (a DN or an address) has the members. Groups.Follow changes
	// Members then, setters do not.
	Assistance note.UNID
	Entry      string
}

// Group is a group as the directory stores it. Callers must not change its lists.
type Group struct {
	ID note.UNID
	GroupFields
	Removed time.Time
}

func (g *GroupFields) write(items note.Items) note.Items {
	f := fields{items}
	f.text(itemForm, formGroup)
	f.text(itemListName, g.Name)
	f.text(itemDescription, g.Description)
	f.text(itemInternetAddress, g.InternetAddress)
	f.text(itemGroupKind, string(g.Kind))
	f.list(itemMembers, g.Members)
	f.list(itemSendAs, g.SendAs)
	f.list(itemOnBehalf, g.OnBehalf)
	g.List.write(&f)
	f.unid(itemGroupDirectory, g.Assistance)
	f.text(itemGroupEntry, g.Entry)
	return f.items
}

func readGroup(id note.UNID, items note.Items) Group {
	return Group{ID: id, Removed: readRemoved(items), GroupFields: GroupFields{
		Name:            items.Get(itemListName).AsText(),
		Description:     items.Get(itemDescription).AsText(),
		InternetAddress: items.Get(itemInternetAddress).AsText(),
		Kind:            GroupKind(items.Get(itemGroupKind).AsText()),
		Members:         items.Get(itemMembers).AsTextList(),
		SendAs:          items.Get(itemSendAs).AsTextList(),
		OnBehalf:        items.Get(itemOnBehalf).AsTextList(),
		List:            readList(items),
		Assistance:      readUNID(items.Get(itemGroupDirectory)),
		Entry:           items.Get(itemGroupEntry).AsText(),
	}}
}

// MailInFields are the parts of a mail-in database document that an administrator sets.
type MailInFields struct {
	Name, InternetAddress string
	Database              note.DatabaseID
	// MailServer is the server that holds the database. See PersonFields.
	MailServer note.UNID
	SizeLimit  uint64 // of one message, in bytes; 0 is no limit
	// Resource is set for a room or another resource that people book. Its reservations are events of the database.
	Resource ResourceFields
}

// MailIn is a database that receives mail at its own address.
type MailIn struct {
	ID note.UNID
	MailInFields
	Removed time.Time
}

func (m *MailInFields) write(items note.Items) note.Items {
	f := fields{items}
	f.text(itemForm, formMailIn)
	f.list(itemFullName, []string{m.Name})
	f.text(itemInternetAddress, m.InternetAddress)
	f.database(itemMailDatabase, m.Database)
	f.unid(itemMailServer, m.MailServer)
	f.int(itemSizeLimit, int64(m.SizeLimit))
	m.Resource.write(&f)
	return f.items
}

func readMailIn(id note.UNID, items note.Items) MailIn {
	m := MailIn{ID: id, Removed: readRemoved(items), MailInFields: MailInFields{
		InternetAddress: items.Get(itemInternetAddress).AsText(),
		Database:        readDatabase(items.Get(itemMailDatabase)),
		MailServer:      readUNID(items.Get(itemMailServer)),
		SizeLimit:       uint64(max(0, items.Get(itemSizeLimit).AsInt())),
		Resource:        readResource(items),
	}}
	if list := items.Get(itemFullName).AsTextList(); len(list) > 0 {
		m.Name = list[0]
	}
	return m
}

// canonical returns the name under which a document is listed.
func canonical(items note.Items) string {
	switch items.Get(itemForm).AsText() {
	case formPerson, formMailIn:
		if list := items.Get(itemFullName).AsTextList(); len(list) > 0 {
			return list[0]
		}
	case formGroup:
		return items.Get(itemListName).AsText()
	case formServer:
		return items.Get(itemServerName).AsText()
	}
	return ""
}

// checkSizes rejects numbers that the stored form cannot hold.
func checkSizes(n ...uint64) error {
	for _, v := range n {
		if v >= 1<<60 {
			return fmt.Errorf("%w size %d: it must be below 2^60 bytes", ErrInvalid, v)
		}
	}
	return nil
}
