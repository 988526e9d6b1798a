package operate

import (
	"fmt"

	"github.com/pushpace/pushpace/internal/words"
)

// All reports whether everything that waits for these limits was looked at. If not, what
// is told is of a part, and says so.
func (p *Preview) All() bool { return p.Users.All() && p.Notifications.All() }

// Says returns what would become of those that were looked at, in a sentence.
func (p *Preview) Says() string {
	those := "that wait"
	if !p.All() {
		those = "looked at"
	}
	switch {
	case p.Notifications.At == 0 && p.All():
		return "Nobody waits for these limits."
	case p.Notifications.At == 0:
		return "It is not known what would happen: of those looked at, nobody waits for these limits."
	case p.Sooner+p.Later == 0:
		return fmt.Sprintf("None of the %s %s would leave sooner or later.", words.Grouped(p.Notifications.At), those)
	}
	at := ""
	if p.AtOnce > 0 {
		at = fmt.Sprintf(", %s of them at once", words.Grouped(p.AtOnce))
	}
	return fmt.Sprintf("%s of %s %s would leave sooner%s; %s later.", orNone(p.Sooner, "None"), words.Grouped(p.Notifications.At), those, at, orNone(p.Later, "none"))
}

// Covers returns what was looked at, in a sentence; "" where it is one user and all that
// is theirs.
func (p *Preview) Covers() string {
	if p.User != "" {
		if p.Notifications.All() {
			return ""
		}
		return fmt.Sprintf("The nearest %s of %s were looked at.", words.Grouped(p.Notifications.At), words.Grouped(p.Notifications.Of))
	}
	of := words.Grouped(p.Users.Of)
	if p.Users.More {
		of += " and perhaps more"
	}
	return fmt.Sprintf("%s of %s users looked at.", words.Grouped(p.Users.At), of)
}

// Peak returns how many leave together, in a sentence; "" when nobody waits.
func (p *Preview) Peak() string {
	if p.Notifications.At == 0 {
		return ""
	}
	if !p.All() {
		return fmt.Sprintf("Of these alone, %s would leave in one second; now it is %s. With the others it may be many more.", words.Grouped(p.MostAfter), words.Grouped(p.MostBefore))
	}
	return fmt.Sprintf("At most %s would leave in one second; now it is %s.", words.Grouped(p.MostAfter), words.Grouped(p.MostBefore))
}

func orNone(n int, none string) string {
	if n == 0 {
		return none
	}
	return words.Grouped(n)
}
