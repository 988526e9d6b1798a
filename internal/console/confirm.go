package console

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/pushpace/pushpace/internal/words"
)

// A confirmation is the data of confirm.html. It is shown before an action that cannot be undone
// or that concerns many entries. Its form posts the same fields to the same address, so that the
// shown action runs.
type confirmation struct {
	// Sentences describe the action and how many entries it concerns.
	Sentences []string
	// Facts are the action's parameters by name; empty ones are left out.
	Facts []fact
	// Things are the entries that the action concerns; none if the facts select them.
	Things []words.Sentence
	// Fields replace fields of the posted form, or add to them.
	Fields []field
	// Expect is the number of entries, for visit.expects; 0 if they are not counted.
	Expect int
	// Button is the label that confirms, and Back the address that cancels.
	Button string
	Back   string

	// Changed means that the confirmed action or number has changed since, and nothing was
	// done.
	Changed bool
}

// A field is a form field or a query parameter, with its value.
type field struct{ Name, Value string }

// A fact is a name with its value.
type fact struct {
	Name  string
	Value words.Sentence
}

// texts returns facts from alternating names and texts.
func texts(of ...string) (all []fact) {
	for i := 0; i < len(of); i += 2 {
		all = append(all, fact{of[i], words.Say(of[i+1])})
	}
	return all
}

// actWithin bounds a confirmed action. A cancelled notification releases its slot, and the
// notifications that move up are woken.
const actWithin = 8 * time.Second

// confirmFields are the fields that each confirmed form has besides its own.
var confirmFields = []string{"confirmed", "expect"}

// confirmed reports whether the visitor has seen the action's description.
func (v *visit) confirmed() bool { return v.form.Get("confirmed") == "yes" }

// expects reports whether the visitor has confirmed the action on n entries or more: entries may
// have ended since. Otherwise the caller must ask again, and do nothing.
func (v *visit) expects(n int) bool {
	seen, err := strconv.Atoi(v.form.Get("expect"))
	return v.confirmed() && err == nil && n <= seen
}

// confirm returns the page that asks for the confirmation.
func confirm(v *visit, title string, c confirmation) page {
	c.Changed = v.confirmed()
	form := url.Values{}
	maps.Copy(form, v.form)
	for _, f := range c.Fields {
		form[f.Name] = []string{f.Value}
	}
	form["confirmed"] = []string{"yes"}
	delete(form, "expect")
	if c.Expect > 0 {
		form["expect"] = []string{strconv.Itoa(c.Expect)}
	}
	c.Fields = fieldsOf(form)
	c.Facts = slices.DeleteFunc(slices.Clone(c.Facts), func(f fact) bool { return f.Value.String() == "" })
	return page{name: "confirm", title: title, data: c}
}

// fieldsOf returns the values one by one, sorted by name.
func fieldsOf(values url.Values) []field {
	var all []field
	for _, name := range slices.Sorted(maps.Keys(values)) {
		for _, value := range values[name] {
			all = append(all, field{name, value})
		}
	}
	return all
}
