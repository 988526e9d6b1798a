package console

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/pushpace/pushpace/internal/words"
)

// A confirmation is asked for before what cannot be undone, or concerns many: what
// confirm.html shows, and the form that has it done. That form goes to the same
// address as the one before and holds what that held, so that what was shown is what
// is done.
type confirmation struct {
	// Sentences say exactly what will be done, and to how many.
	Sentences []string
	// Facts are what it is done with, each under its name; one that is "" is left out.
	Facts []fact
	// Things are what it is done to; none where the facts select it.
	Things []words.Sentence
	// Fields are what the form holds besides what it held, or instead of it.
	Fields []field
	// Expect is how many it is done to, for visit.expects; 0 for what is not counted.
	Expect int
	// Button says what it does, and Back is where nothing is done.
	Button string
	Back   string

	// Changed says that something else was confirmed, and nothing done.
	Changed bool
}

// A field is one of a form or of an address, and its value.
type field struct{ Name, Value string }

// A fact is a name and what is known under it.
type fact struct {
	Name  string
	Value words.Sentence
}

// texts returns facts of names and texts in turns.
func texts(of ...string) (all []fact) {
	for i := 0; i < len(of); i += 2 {
		all = append(all, fact{of[i], words.Say(of[i+1])})
	}
	return all
}

// actWithin is how long it may take to do what was confirmed: what is cancelled gives its
// slot to others, who are woken.
const actWithin = 8 * time.Second

// confirmFields are those of every form that is confirmed; a route takes them besides
// its own.
var confirmFields = []string{"confirmed", "expect"}

// confirmed reports whether the visitor has seen what will be done.
func (v *visit) confirmed() bool { return v.form.Get("confirmed") == "yes" }

// expects reports whether the visitor has seen that it will be done to n or more: some may
// have ended meanwhile. Otherwise the confirmation is to be shown again, and nothing done.
func (v *visit) expects(n int) bool {
	seen, err := strconv.Atoi(v.form.Get("expect"))
	return v.confirmed() && err == nil && n <= seen
}

// confirm returns the page that asks.
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

// fieldsOf are the values one by one, in the order of their names.
func fieldsOf(values url.Values) []field {
	var all []field
	for _, name := range slices.Sorted(maps.Keys(values)) {
		for _, value := range values[name] {
			all = append(all, field{name, value})
		}
	}
	return all
}
