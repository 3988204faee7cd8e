package jmapd

import (
	"doublet/groupware"
	"doublet/note"
	"doublet/wire/jmap"
)

// addressBooks is the type AddressBook.
//
// Implements: RFC 9610 §2.1 AddressBook/get
// Implements: RFC 9610 §2.2 AddressBook/changes
// Implements: RFC 9610 §2.3 AddressBook/set
var addressBooks = &collectionType{
	kind: groupware.AddressBook, letter: letterBook,
	properties: []string{"id", "name", "description", "sortOrder", "isDefault", "isSubscribed", "shareWith",
		"myRights"},
	patch: kind{mutable: []string{"name", "description", "sortOrder", "isSubscribed", "shareWith"},
		fixed: oneOf("id", "isDefault", "myRights"), defaults: map[string]jmap.Value{"sortOrder": jmap.MakeNumber(0)}},
	readers: map[string]propertyReader{"name": readName, "description": readDescription, "sortOrder": readSortOrder},
	rights:  addressBookRights, is: func(*groupware.Collection) bool { return true }, append: appendAddressBook,
	withContents: "onDestroyRemoveContents", notEmpty: "addressBookHasContents",
}

// addressBookRights maps the members of AddressBookRights to rights in a collection.
//
// Implements: RFC 9610 §2 AddressBookRights
var addressBookRights = []shareRight{
	{"mayRead", note.Lookup | note.Read | note.KeepSeen, note.Lookup | note.Read},
	{"mayWrite", note.Insert | note.Write | note.DeleteMark | note.Expunge, note.Insert | note.Write | note.Expunge},
	{"mayShare", note.Administer, note.Administer},
	{"mayDelete", note.Create | note.Remove, note.Remove},
}

// appendAddressBook appends an AddressBook.
//
// Implements: RFC 9610 §2 AddressBooks
func appendAddressBook(dst []byte, x *groupware.Collection, owner note.UNID, wants func(string) bool) []byte {
	o := jmap.NewWriter(dst)
	o.Name("id")
	o.B = appendID(o.B, letterBook, x.UNID)
	if wants("name") {
		o.Text("name", x.Title)
	}
	if wants("description") {
		orNull(&o, "description", x.Description)
	}
	if wants("sortOrder") {
		o.Uint("sortOrder", uint64(max(x.Order, 0)))
	}
	if wants("isDefault") {
		o.Bool("isDefault", x.Default)
	}
	if wants("isSubscribed") {
		o.Bool("isSubscribed", x.Subscribed)
	}
	if wants("shareWith") {
		o.Name("shareWith")
		o.B = appendShareWith(o.B, addressBookRights, x, owner)
	}
	if wants("myRights") {
		o.Name("myRights")
		o.B = appendShareRights(o.B, addressBookRights, x.Rights)
	}
	return o.End()
}
