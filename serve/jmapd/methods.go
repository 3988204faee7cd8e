package jmapd

import "doublet/wire/jmap"

// methods lists the methods of the protocol, each with the capability that a request must list in using.
var methods = map[string]method{
	"Core/echo": {jmap.Core, coreEcho},
	"Blob/copy": {jmap.Core, blobCopy},

	"Blob/upload": {jmap.Blob, blobUpload},
	"Blob/get":    {jmap.Blob, blobGet},
	"Blob/lookup": {jmap.Blob, blobLookup},

	"Mailbox/get":          {jmap.Mail, mailboxGet},
	"Mailbox/changes":      {jmap.Mail, mailboxChanges},
	"Mailbox/query":        {jmap.Mail, mailboxQuery},
	"Mailbox/queryChanges": {jmap.Mail, mailboxQueryChanges},
	"Mailbox/set":          {jmap.Mail, mailboxSet},
	"Thread/get":           {jmap.Mail, threadGet},
	"Thread/changes":       {jmap.Mail, threadChanges},
	"Email/get":            {jmap.Mail, emailGet},
	"Email/changes":        {jmap.Mail, emailChanges},
	"Email/query":          {jmap.Mail, emailQuery},
	"Email/queryChanges":   {jmap.Mail, emailQueryChanges},
	"Email/set":            {jmap.Mail, emailSet},
	"Email/copy":           {jmap.Mail, emailCopy},
	"Email/import":         {jmap.Mail, emailImport},
	"Email/parse":          {jmap.Mail, emailParse},
	"SearchSnippet/get":    {jmap.Mail, snippetGet},

	"SearchText/parse": {jmap.Search, searchTextParse},
	"Recipient/check":  {jmap.Recipients, recipientCheck},

	"BlockedSenders/get": {jmap.Senders, blockedGet},
	"BlockedSenders/set": {jmap.Senders, blockedSet},
	"Email/unsubscribe":  {jmap.Senders, emailUnsubscribe},

	"Preferences/get": {jmap.Preferences, preferencesGet},
	"Preferences/set": {jmap.Preferences, preferencesSet},

	"SnoozedEmail/get": {jmap.Snooze, snoozedGet},
	"SnoozedEmail/set": {jmap.Snooze, snoozedSet},

	"DeletedEmail/get":     {jmap.Recovery, deletedGet},
	"DeletedEmail/restore": {jmap.Recovery, deletedRestore},

	"Identity/get":                 {jmap.SubmissionURN, identityGet},
	"Identity/changes":             {jmap.SubmissionURN, identityChanges},
	"Identity/set":                 {jmap.SubmissionURN, identitySet},
	"EmailSubmission/get":          {jmap.SubmissionURN, submissionGet},
	"EmailSubmission/changes":      {jmap.SubmissionURN, submissionChanges},
	"EmailSubmission/query":        {jmap.SubmissionURN, submissionQuery},
	"EmailSubmission/queryChanges": {jmap.SubmissionURN, submissionQueryChanges},
	"EmailSubmission/set":          {jmap.SubmissionURN, submissionSet},

	"VacationResponse/get": {jmap.VacationResponse, vacationGet},
	"VacationResponse/set": {jmap.VacationResponse, vacationSet},

	"Quota/get":          {jmap.Quota, quotaGet},
	"Quota/changes":      {jmap.Quota, quotaChanges},
	"Quota/query":        {jmap.Quota, quotaQuery},
	"Quota/queryChanges": {jmap.Quota, quotaQueryChanges},

	"Principal/get":          {jmap.Principals, principalGet},
	"Principal/changes":      {jmap.Principals, principalChanges},
	"Principal/query":        {jmap.Principals, principalQuery},
	"Principal/queryChanges": {jmap.Principals, principalQueryChanges},
	"Principal/set":          {jmap.Principals, principalSet},

	"AddressBook/get":          {jmap.Contacts, addressBooks.get},
	"AddressBook/changes":      {jmap.Contacts, addressBooks.changes},
	"AddressBook/set":          {jmap.Contacts, addressBooks.set},
	"ContactCard/get":          {jmap.Contacts, contactCardGet},
	"ContactCard/changes":      {jmap.Contacts, contactCardChanges},
	"ContactCard/query":        {jmap.Contacts, contactCardQuery},
	"ContactCard/queryChanges": {jmap.Contacts, contactCardQueryChanges},
	"ContactCard/set":          {jmap.Contacts, contactCardSet},
	"ContactCard/copy":         {jmap.Contacts, contactCardCopy},

	"Calendar/get":               {jmap.Calendars, calendars.get},
	"Calendar/changes":           {jmap.Calendars, calendars.changes},
	"Calendar/set":               {jmap.Calendars, calendars.set},
	"CalendarEvent/get":          {jmap.Calendars, events.get},
	"CalendarEvent/changes":      {jmap.Calendars, events.changes},
	"CalendarEvent/query":        {jmap.Calendars, events.query},
	"CalendarEvent/queryChanges": {jmap.Calendars, events.queryChanges},
	"CalendarEvent/set":          {jmap.Calendars, events.set},
	"CalendarEvent/copy":         {jmap.Calendars, events.copy},
	"CalendarEvent/parse":        {jmap.CalendarsParse, calendarParse},

	"TaskList/get":      {jmap.Tasks, taskLists.get},
	"TaskList/changes":  {jmap.Tasks, taskLists.changes},
	"TaskList/set":      {jmap.Tasks, taskLists.set},
	"Task/get":          {jmap.Tasks, tasks.get},
	"Task/changes":      {jmap.Tasks, tasks.changes},
	"Task/query":        {jmap.Tasks, tasks.query},
	"Task/queryChanges": {jmap.Tasks, tasks.queryChanges},
	"Task/set":          {jmap.Tasks, tasks.set},
	"Task/copy":         {jmap.Tasks, tasks.copy},

	"CalendarFeed/get": {jmap.Feeds, feedGet},
	"CalendarFeed/set": {jmap.Feeds, feedSet},

	"ParticipantIdentity/get":     {jmap.Calendars, participantIdentityGet},
	"ParticipantIdentity/changes": {jmap.Calendars, participantIdentityChanges},
	"ParticipantIdentity/set":     {jmap.Calendars, participantIdentitySet},
	"Principal/getAvailability":   {jmap.Availability, getAvailability},
	"Room/find":                   {jmap.Rooms, roomFind},

	"SieveScript/get":      {jmap.Sieve, scriptGet},
	"SieveScript/set":      {jmap.Sieve, scriptSet},
	"SieveScript/query":    {jmap.Sieve, scriptQuery},
	"SieveScript/validate": {jmap.Sieve, scriptValidate},

	"SieveRules/get":     {jmap.Rules, rulesGet},
	"SieveRules/set":     {jmap.Rules, rulesSet},
	"SieveRules/test":    {jmap.Rules, rulesTest},
	"SieveRules/parse":   {jmap.Rules, rulesParse},
	"SieveRules/suggest": {jmap.Rules, rulesSuggest},

	"MDN/send":  {jmap.MDN, mdnSend},
	"MDN/parse": {jmap.MDN, mdnParse},
}
